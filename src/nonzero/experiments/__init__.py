"""Measurements, and the tables and figures made from their committed result files."""
