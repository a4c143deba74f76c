-- What `prisma migrate` makes of schema.prisma, but that it may be run again: docker compose does so at each start.
CREATE TABLE IF NOT EXISTS "Order" (
    "id" TEXT PRIMARY KEY,
    "customer" TEXT NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'open',
    "closesAt" TIMESTAMP(3) NOT NULL
);

CREATE TABLE IF NOT EXISTS "Email" (
    "id" TEXT PRIMARY KEY,
    "payload" JSONB NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "nextAttemptAt" TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP,
    "lastError" TEXT,
    "doneAt" TIMESTAMP(3),
    "updatedAt" TIMESTAMP(3) NOT NULL
);
CREATE INDEX IF NOT EXISTS "Email_status_nextAttemptAt_idx" ON "Email" ("status", "nextAttemptAt");

CREATE TABLE IF NOT EXISTS "Notification" (
    "id" TEXT PRIMARY KEY,
    "payload" JSONB NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "nextAttemptAt" TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP,
    "lastError" TEXT,
    "doneAt" TIMESTAMP(3),
    "updatedAt" TIMESTAMP(3) NOT NULL
);
CREATE INDEX IF NOT EXISTS "Notification_status_nextAttemptAt_idx" ON "Notification" ("status", "nextAttemptAt");

CREATE TABLE IF NOT EXISTS "Webhook" (
    "id" TEXT PRIMARY KEY,
    "url" TEXT NOT NULL,
    "payload" JSONB NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "nextAttemptAt" TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP,
    "lastError" TEXT,
    "doneAt" TIMESTAMP(3),
    "updatedAt" TIMESTAMP(3) NOT NULL
);
CREATE INDEX IF NOT EXISTS "Webhook_status_nextAttemptAt_idx" ON "Webhook" ("status", "nextAttemptAt");

CREATE TABLE IF NOT EXISTS "Funding" (
    "id" TEXT PRIMARY KEY,
    "payload" JSONB NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "nextAttemptAt" TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP,
    "lastError" TEXT,
    "doneAt" TIMESTAMP(3),
    "updatedAt" TIMESTAMP(3) NOT NULL
);
CREATE INDEX IF NOT EXISTS "Funding_status_nextAttemptAt_idx" ON "Funding" ("status", "nextAttemptAt");

CREATE TABLE IF NOT EXISTS "Export" (
    "id" TEXT PRIMARY KEY,
    "payload" JSONB NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "nextAttemptAt" TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP,
    "lastError" TEXT,
    "doneAt" TIMESTAMP(3),
    "updatedAt" TIMESTAMP(3) NOT NULL
);
CREATE INDEX IF NOT EXISTS "Export_status_nextAttemptAt_idx" ON "Export" ("status", "nextAttemptAt");
