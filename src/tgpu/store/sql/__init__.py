"""The transactions, written once in SQLAlchemy Core for every SQL database."""
