-- The tables of schema.prisma, as `prisma migrate` writes them.
CREATE TYPE "invoice_status" AS ENUM ('draft', 'sent', 'overdue', 'paid');
CREATE TYPE "delivery_status" AS ENUM ('pending', 'success', 'failed');

CREATE TABLE "invoices" (
    "id" SERIAL NOT NULL,
    "endpoint_id" TEXT NOT NULL,
    "cents" INTEGER NOT NULL,
    "status" "invoice_status" NOT NULL DEFAULT 'draft',
    "send_at" TIMESTAMP(3),
    "due_at" TIMESTAMP(3) NOT NULL,
    "reminded_at" TIMESTAMP(3),
    "updated_at" TIMESTAMP(3) NOT NULL,
    CONSTRAINT "invoices_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "invoice_status_history" (
    "id" SERIAL NOT NULL,
    "invoice_id" INTEGER NOT NULL,
    "was" "invoice_status" NOT NULL,
    "became" "invoice_status" NOT NULL,
    "at" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "invoice_status_history_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "activity_events" (
    "id" SERIAL NOT NULL,
    "invoice_id" INTEGER NOT NULL,
    "kind" TEXT NOT NULL,
    "at" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "activity_events_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "notifications" (
    "id" SERIAL NOT NULL,
    "invoice_id" INTEGER NOT NULL,
    "kind" TEXT NOT NULL,
    "at" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "notifications_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "webhook_endpoints" (
    "id" TEXT NOT NULL,
    "url" TEXT NOT NULL,
    "secret" TEXT NOT NULL,
    "is_active" BOOLEAN NOT NULL DEFAULT true,
    CONSTRAINT "webhook_endpoints_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "webhook_deliveries" (
    "id" TEXT NOT NULL,
    "endpoint_id" TEXT NOT NULL,
    "url" TEXT NOT NULL,
    "event" TEXT NOT NULL,
    "payload" JSONB NOT NULL,
    "status" "delivery_status" NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "next_attempt_at" TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP,
    "last_error" TEXT,
    "delivered_at" TIMESTAMP(3),
    "updated_at" TIMESTAMP(3) NOT NULL,
    CONSTRAINT "webhook_deliveries_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "webhook_dead_letters" (
    "id" SERIAL NOT NULL,
    "delivery_id" TEXT NOT NULL,
    "url" TEXT NOT NULL,
    "payload" JSONB NOT NULL,
    "attempts" INTEGER NOT NULL,
    "last_error" TEXT,
    "at" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "webhook_dead_letters_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "payments" (
    "number" INTEGER NOT NULL,
    "invoice_id" INTEGER NOT NULL,
    "cents" INTEGER NOT NULL,
    "at" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "payments_pkey" PRIMARY KEY ("number")
);

CREATE INDEX "webhook_deliveries_status_next_attempt_at_idx" ON "webhook_deliveries"("status", "next_attempt_at");
