"""`pagegate bench queue`: what a durable job costs that does nothing, beside others who do the same, in one run.

`lane.py` is pagegate's own queue and workers, `raw.py` plain sqlite3 with the very same transactions, `opponent.py`
procrastinate, `server.py` a PostgreSQL of our own, `run.py` the order, the goals and the tables.
"""
