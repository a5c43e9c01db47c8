CREATE TABLE runs (
    id SERIAL NOT NULL, 
    run_key VARCHAR(64) NOT NULL, 
    dataset VARCHAR(200) NOT NULL, 
    dataset_name VARCHAR(50) NOT NULL, 
    dataset_parameters JSONB NOT NULL, 
    method VARCHAR(100) NOT NULL, 
    prototypes INTEGER NOT NULL, 
    power FLOAT, 
    epsilon FLOAT, 
    parameters JSONB NOT NULL, 
    plugin_sha256 VARCHAR(64), 
    epochs INTEGER NOT NULL, 
    batch_size INTEGER NOT NULL, 
    learning_rate FLOAT NOT NULL, 
    optimizer VARCHAR(50) NOT NULL, 
    schedule VARCHAR(50) NOT NULL, 
    seed BIGINT NOT NULL, 
    config JSONB NOT NULL, 
    state VARCHAR(10) NOT NULL, 
    previous_state VARCHAR(10), 
    train_accuracy FLOAT, 
    test_accuracy FLOAT, 
    holdout_accuracy FLOAT, 
    n_features INTEGER, 
    n_classes INTEGER, 
    diverged_epoch INTEGER, 
    error TEXT, 
    engine VARCHAR(50), 
    device VARCHAR(100), 
    threads INTEGER, 
    host VARCHAR(255), 
    pid INTEGER, 
    attempt INTEGER NOT NULL, 
    versions JSONB, 
    git JSONB, 
    data_sha256 VARCHAR(64), 
    seconds FLOAT, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE, 
    heartbeat_at TIMESTAMP WITH TIME ZONE, 
    finished_at TIMESTAMP WITH TIME ZONE, 
    CONSTRAINT pk_runs PRIMARY KEY (id), 
    CONSTRAINT uq_runs_run_key UNIQUE (run_key), 
    CONSTRAINT ck_runs_state CHECK (state IN ('planned', 'running', 'complete', 'diverged', 'failed'))
);

CREATE INDEX ix_runs_dataset_method_prototypes ON runs (dataset, method, prototypes);

CREATE INDEX ix_runs_state ON runs (state);

CREATE TABLE sweeps (
    id SERIAL NOT NULL, 
    name VARCHAR(200) NOT NULL, 
    description TEXT NOT NULL, 
    spec TEXT NOT NULL, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
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

CREATE TABLE curves (
    run_id INTEGER NOT NULL, 
    epoch INTEGER NOT NULL, 
    learning_rate FLOAT NOT NULL, 
    train_loss FLOAT, 
    test_accuracy FLOAT NOT NULL, 
    CONSTRAINT pk_curves PRIMARY KEY (run_id, epoch), 
    CONSTRAINT fk_curves_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE tensors (
    run_id INTEGER NOT NULL, 
    name VARCHAR(50) NOT NULL, 
    dtype VARCHAR(20) NOT NULL, 
    shape JSONB NOT NULL, 
    data BYTEA NOT NULL, 
    CONSTRAINT pk_tensors PRIMARY KEY (run_id, name), 
    CONSTRAINT fk_tensors_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT 
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule
, state, n_features, n_classes,
        CASE WHEN state = 'complete' THEN test_accuracy END AS test,
        CASE WHEN state = 'complete' THEN holdout_accuracy END AS holdout
    FROM runs
    WHERE state IN ('complete', 'diverged')
),
centred AS (
    SELECT ended.*,
        AVG(test) OVER setting AS test_mean,
        AVG(holdout) OVER setting AS holdout_mean
    FROM ended
    WINDOW setting AS (PARTITION BY 
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule
)
)
SELECT 
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule
,
    COUNT(CASE WHEN state = 'complete' THEN 1 END) AS n,
    MAX(test_mean) AS test_mean,
    CASE WHEN COUNT(test) > 1
        THEN SQRT(SUM((test - test_mean) * (test - test_mean)) / (COUNT(test) - 1)) END AS test_std,
    MAX(holdout_mean) AS holdout_mean,
    CASE WHEN COUNT(holdout) > 1
        THEN SQRT(SUM((holdout - holdout_mean) * (holdout - holdout_mean)) / (COUNT(holdout) - 1)) END AS holdout_std,
    COUNT(CASE WHEN state = 'diverged' THEN 1 END) AS n_diverged,
    prototypes * (MAX(n_features) + MAX(n_classes)) AS n_parameters
FROM centred
GROUP BY 
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule;

CREATE VIEW runs_wide AS
SELECT runs.id, runs.run_key,
    (SELECT string_agg(named.name, ', ') FROM (
        SELECT sweeps.name FROM sweep_runs JOIN sweeps ON sweeps.id = sweep_runs.sweep_id
        WHERE sweep_runs.run_id = runs.id ORDER BY sweeps.name
    ) AS named) AS sweeps,
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule, seed,
    state, train_accuracy, test_accuracy, holdout_accuracy, n_features, n_classes, diverged_epoch, error,
    engine, device, threads, host, pid, attempt, versions, git, data_sha256, seconds,
    created_at, started_at, heartbeat_at, finished_at
FROM runs;


