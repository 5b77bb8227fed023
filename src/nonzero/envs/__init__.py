"""In-graph environments: rules of games behind one protocol, found by name."""
