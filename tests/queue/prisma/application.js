// Runs each line that it is given as an expression over `prisma`, and answers with what came of it as JSON.
const readline = require("node:readline");
const { PrismaPg } = require("@prisma/adapter-pg");
const { PrismaClient } = require("./generated");

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer;
    try {
      const value = await new Function("prisma", `return (async () => (${JSON.parse(line)}))()`)(prisma);
      answer = { value: value === undefined ? null : value };
    } catch (error) {
      answer = { error: String(error) };
    }
    process.stdout.write(JSON.stringify(answer, (_, each) => (typeof each === "bigint" ? String(each) : each)) + "\n");
  }
  await prisma.$disconnect();
}

main();
