CREATE TABLE idwbench_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT idwbench_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE sweeps (
    id INTEGER NOT NULL,
    name VARCHAR(200) NOT NULL,
    description TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_sweeps PRIMARY KEY (id),
    CONSTRAINT uq_sweeps_name UNIQUE (name)
);

CREATE TABLE sweep_runs (
    sweep_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    CONSTRAINT pk_sweep_runs PRIMARY KEY (sweep_id, position),
    CONSTRAINT uq_sweep_runs_run_id_sweep_id UNIQUE (run_id, sweep_id),
    CONSTRAINT fk_sweep_runs_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT fk_sweep_runs_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE metrics (
    run_id INTEGER NOT NULL,
    split VARCHAR(20) NOT NULL,
    name VARCHAR(50) NOT NULL,
    value FLOAT NOT NULL,
    CONSTRAINT pk_metrics PRIMARY KEY (run_id, split, name),
    CONSTRAINT fk_metrics_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE "runs" (
    id INTEGER NOT NULL,
    run_key VARCHAR(64) NOT NULL,
    dataset VARCHAR(200) NOT NULL,
    dataset_name VARCHAR(50) NOT NULL,
    dataset_parameters JSON NOT NULL,
    method VARCHAR(100),
    prototypes INTEGER,
    power FLOAT,
    epsilon FLOAT,
    parameters JSON NOT NULL,
    plugin_sha256 VARCHAR(64),
    epochs INTEGER NOT NULL,
    batch_size INTEGER NOT NULL,
    learning_rate FLOAT NOT NULL,
    optimizer VARCHAR(50) NOT NULL,
    schedule VARCHAR(50) NOT NULL,
    seed BIGINT NOT NULL,
    config JSON NOT NULL,
    state VARCHAR(10) NOT NULL,
    previous_state VARCHAR(10),
    diverged_epoch INTEGER,
    error TEXT,
    engine VARCHAR(50),
    device VARCHAR(100),
    threads INTEGER,
    host VARCHAR(255),
    pid INTEGER,
    attempt INTEGER NOT NULL,
    versions JSON,
    git JSON,
    data_sha256 VARCHAR(64),
    seconds FLOAT,
    created_at DATETIME NOT NULL,
    started_at DATETIME,
    heartbeat_at DATETIME,
    finished_at DATETIME,
    model VARCHAR(50) NOT NULL,
    protocol JSON NOT NULL,
    n_parameters INTEGER,
    cpu JSON, platform VARCHAR(200), durations JSON,
    CONSTRAINT pk_runs PRIMARY KEY (id),
    CONSTRAINT uq_runs_run_key UNIQUE (run_key),
    CONSTRAINT ck_runs_state CHECK (state IN ('planned', 'running', 'complete', 'diverged', 'failed'))
);

CREATE INDEX ix_runs_state ON runs (state);

CREATE INDEX ix_runs_dataset_method_prototypes ON runs (dataset, method, prototypes);

CREATE TABLE curves (
    run_id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    split VARCHAR(20) NOT NULL,
    name VARCHAR(50) NOT NULL,
    value FLOAT,
    CONSTRAINT pk_curves PRIMARY KEY (run_id, epoch, split, name),
    CONSTRAINT fk_curves_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE arrays (
    run_id INTEGER NOT NULL,
    name VARCHAR(50) NOT NULL,
    dtype VARCHAR(20) NOT NULL,
    shape JSON NOT NULL,
    data BLOB NOT NULL,
    CONSTRAINT pk_arrays PRIMARY KEY (run_id, name),
    CONSTRAINT fk_arrays_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE attempts (
    run_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    state VARCHAR(10) NOT NULL,
    error TEXT,
    host VARCHAR(255),
    pid INTEGER,
    started_at DATETIME,
    ended_at DATETIME,
    seconds FLOAT,
    CONSTRAINT pk_attempts PRIMARY KEY (run_id, number),
    CONSTRAINT fk_attempts_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE,
    CONSTRAINT ck_attempts_ck_attempts_state CHECK (state IN ('running', 'complete', 'diverged', 'failed', 'released', 'lost'))
)
 WITHOUT ROWID;

CREATE TABLE diffs (
    sha256 VARCHAR(64) NOT NULL,
    content TEXT NOT NULL,
    CONSTRAINT pk_diffs PRIMARY KEY (sha256)
);

CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT runs.*, json_remove(config, '$.dataset', '$.protocol', '$.seed') AS model_settings, COALESCE(previous_state, state) AS ended_state
    FROM runs
    WHERE state IN ('complete', 'diverged') OR previous_state IN ('complete', 'diverged')
),
counted AS (
    SELECT
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
, id, ended_state,
        COUNT(CASE WHEN ended_state = 'diverged' THEN 1 END) OVER setting AS n_diverged,
        MAX(n_parameters) OVER setting AS n_parameters
    FROM ended
    WINDOW setting AS (PARTITION BY
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
)
),
measured AS (
    SELECT counted.*, metrics.split, metrics.name AS metric, metrics.value,
        AVG(metrics.value) OVER (PARTITION BY
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
, metrics.split, metrics.name) AS mean,
        COUNT(metrics.value) OVER (PARTITION BY
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
) AS n_values
    FROM counted LEFT JOIN metrics ON metrics.run_id = counted.id AND counted.ended_state = 'complete'
)
SELECT
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
, split, metric,
    COUNT(value) AS n,
    MAX(mean) AS mean,
    CASE WHEN COUNT(value) > 1 THEN SQRT(SUM((value - mean) * (value - mean)) / (COUNT(value) - 1)) END AS std,
    MAX(n_diverged) AS n_diverged,
    MAX(n_parameters) AS n_parameters
FROM measured
WHERE metric IS NOT NULL OR n_values = 0
GROUP BY
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
, split, metric;

CREATE VIEW runs_wide AS
SELECT runs.id, runs.run_key,
    (SELECT group_concat(named.name, ', ') FROM (
        SELECT sweeps.name FROM sweep_runs JOIN sweeps ON sweeps.id = sweep_runs.sweep_id
        WHERE sweep_runs.run_id = runs.id ORDER BY sweeps.name
    ) AS named) AS sweeps,
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule, protocol, seed,
    CASE WHEN previous_state IN ('complete', 'diverged') THEN previous_state ELSE state END AS state,
    COALESCE(previous_state, '') IN ('complete', 'diverged') AS retraining,
    (
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = 'train' AND metrics.name = 'accuracy'
    ) AS train_accuracy, (
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = 'validation' AND metrics.name = 'accuracy'
    ) AS validation_accuracy, (
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = 'test' AND metrics.name = 'accuracy'
    ) AS test_accuracy, (
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = 'holdout' AND metrics.name = 'accuracy'
    ) AS holdout_accuracy, (
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = 'test' AND metrics.name = 'rmse'
    ) AS test_rmse, n_parameters, diverged_epoch, error,
    engine, device, threads, cpu, platform, host, pid, attempt, versions, git, data_sha256, seconds, durations,
    created_at, started_at, heartbeat_at, finished_at
FROM runs;

INSERT INTO idwbench_version VALUES ('0003');
