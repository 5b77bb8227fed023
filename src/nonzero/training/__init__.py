"""Learning a model from play that the search guides: collect, store, sample, reanalyse, update, evaluate."""
