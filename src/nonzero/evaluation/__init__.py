"""How results are summarised: means with intervals that say how far to trust them."""
