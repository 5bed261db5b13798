-- How many of its requests a grade has made: people watch it, for up to two minutes.
ALTER TABLE endpoint_grades ADD COLUMN checks_made int NOT NULL DEFAULT 0;
