"""What a search refuses: shapes always, values wherever they are known (outside of jit)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array

from nonzero.search.expand import MAX_ENUMERATED, Expansion
from nonzero.types import ModelOutputs, SearchResult


def check_arguments(
    outputs: ModelOutputs,
    latent: Any,
    legal: Array,
    num_simulations: int,
    num_candidates: int,
    expansion: Expansion,
) -> int:
    """Refuse sizes that make no search; the number of slots a node needs."""
    shape = np.shape(outputs.policy_logits)
    if len(shape) != 3 or 0 in shape:
        raise ValueError(f"policy_logits must have the shape [batch, agents, actions], not {list(shape)}")
    for name in ("value", "reward", "discount"):
        if np.shape(getattr(outputs, name)) != shape[:1]:
            found = list(np.shape(getattr(outputs, name)))
            raise ValueError(f"{name} must have the shape [{shape[0]}] of the batch, not {found}")
    if np.shape(legal) != shape:
        raise ValueError(
            f"legal must have the shape {list(shape)} of policy_logits, not {list(np.shape(legal))}"
        )
    for leaf in jax.tree.leaves(latent):
        if np.shape(leaf)[:1] != shape[:1]:
            raise ValueError(
                f"the latent's arrays must start with the batch axis {shape[0]}, not {list(np.shape(leaf))}"
            )
    if num_simulations < 1:
        raise ValueError(f"num_simulations must be at least 1, not {num_simulations}")
    if num_candidates < 1:
        raise ValueError(f"num_candidates must be at least 1, not {num_candidates}")
    if expansion.candidates == "sampled":
        return num_candidates
    if shape[2] ** shape[1] > MAX_ENUMERATED:
        raise ValueError(f"{shape[2]}^{shape[1]} joint actions are too many to enumerate: sample them")
    return shape[2] ** shape[1]


def is_known(*arrays: Any) -> bool:
    """Whether the values are there to look at, which they are not while jit traces."""
    return not any(isinstance(x, jax.core.Tracer) for x in arrays)


def check_root(outputs: ModelOutputs, legal: Array, temperature: Any) -> None:
    """Refuse roots with an agent that has no legal action, and outputs that are no numbers."""
    if is_known(legal):
        stuck = np.argwhere(~np.any(np.asarray(legal), axis=-1))
        if len(stuck):
            raise ValueError(f"agent {stuck[0][1]} of batch row {stuck[0][0]} has no legal action")
    if is_known(temperature) and not temperature >= 0:
        raise ValueError(f"temperature must not be negative, not {temperature}")
    if is_known(outputs.policy_logits, outputs.value):
        logits = np.asarray(outputs.policy_logits)
        for name, bad in (
            ("policy_logits", np.any(np.isnan(logits) | (logits == np.inf), axis=(1, 2))),
            ("value", ~np.isfinite(np.asarray(outputs.value))),
        ):
            if bad.any():
                raise ValueError(f"the root's {name} of batch row {np.argmax(bad)} are NaN or infinite")


def check_step(recurrent_fn: Callable, params: Any, key: Any, outputs: ModelOutputs, latent: Any) -> bool:
    """Refuse a model whose outputs or latents change their shape or type from one step to the next.

    Whether chance plays a part in its answers: whether they use the key at all.
    """
    batch, agents, _ = np.shape(outputs.policy_logits)
    actions = jax.ShapeDtypeStruct((batch, agents), np.int32)
    traced, answer = jax.make_jaxpr(
        lambda key, params, actions, latent: recurrent_fn(params, key, actions, latent), return_shape=True
    )(key, params, actions, latent)
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], ModelOutputs)):
        raise ValueError("recurrent_fn must return a pair (ModelOutputs, latent)")
    for name in ("policy_logits", "value", "reward", "discount"):
        expected, found = np.shape(getattr(outputs, name)), getattr(answer[0], name).shape
        if expected != found:
            raise ValueError(f"recurrent_fn's {name} have the shape {list(found)}, expected {list(expected)}")
    before, after = (
        jax.tree.map(lambda x: (np.shape(x), jax.dtypes.result_type(x)), tree) for tree in (latent, answer[1])
    )
    if before != after:
        raise ValueError(
            f"recurrent_fn must keep the latent's structure, shapes and types: {before} -> {after}"
        )
    _, is_used = dce_jaxpr(traced.jaxpr, [True] * len(traced.out_avals))
    return is_used[0]


def check_result(result: SearchResult) -> None:
    """Refuse a result that rests on NaN or infinity from the model."""
    if is_known(result.is_finite) and not np.all(np.asarray(result.is_finite)):
        row = int(np.argmin(np.asarray(result.is_finite)))
        raise ValueError(f"the model returned NaN or infinity inside the search tree of batch row {row}")
