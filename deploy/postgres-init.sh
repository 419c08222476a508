#!/bin/sh
# Creates the role and the database of push-server in a new PostgreSQL. The role is no superuser and owns its database.
# The PostgreSQL image runs this script as its superuser, with POSTGRES_PASSWORD in the environment; docker-compose.yml
# mounts it.
set -eu

psql --no-psqlrc --set ON_ERROR_STOP=1 --set password="$POSTGRES_PASSWORD" \
    --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
CREATE ROLE push LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD :'password';
CREATE DATABASE push OWNER push ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE push FROM PUBLIC;
-- The password is only for the role: the superuser can log in only from within the container.
ALTER ROLE CURRENT_USER PASSWORD NULL;
SQL
