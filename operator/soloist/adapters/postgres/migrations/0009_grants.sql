-- Who may do what. Functions run with the rights of their caller, so these grants are all there is; nobody but the owner
-- of the schema has any before.

-- Enqueue, cancel nothing, read nothing but the ids and keys of rows.
CREATE FUNCTION soloist.allow_enqueue(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA soloist TO %I', role);
    EXECUTE format('GRANT INSERT, SELECT (id, queue, unique_key) ON soloist.work_items TO %I', role);
    EXECUTE format('GRANT SELECT ON soloist.listening TO %I', role);
END $$;

-- All that workers, controllers and applications with claims of their own need; not DDL.
CREATE FUNCTION soloist.allow_work(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA soloist TO %I', role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON soloist.work_items, soloist.dead_items, soloist.leader_epoch, '
        'soloist.job_runs, soloist.job_ticks, soloist.once, soloist.checkpoints, soloist.sources, soloist.claims, '
        'soloist.dead_rows, soloist.listening TO %I', role);
    EXECUTE format('GRANT SELECT ON soloist.migrations, soloist.mapped_queues TO %I', role);
    EXECUTE format('GRANT SELECT, UPDATE ON SEQUENCE soloist.fence TO %I', role);
    EXECUTE format('GRANT USAGE ON SEQUENCE soloist.work_items_id_seq TO %I', role);
END $$;
