"""What all tables belong to, and how their keys are named."""

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)

# SQLite keeps a table in the order of its key only if the key's type is spelled INTEGER.
BigKey = BigInteger().with_variant(Integer, "sqlite")
