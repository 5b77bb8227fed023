"""What stands for the environment in the search: networks, categorical supports, inference."""
