"""PostgreSQL: the one folder that knows psycopg."""
