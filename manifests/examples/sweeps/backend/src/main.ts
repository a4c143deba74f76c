import "reflect-metadata";
import {
  ConflictException, Controller, Get, Headers, HttpCode, Inject, Module, NotFoundException, Param, Post, UnauthorizedException,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Gigs } from "./gigs.js";
import { NAMES, settings, type Name, type Settings } from "./settings.js";
import { Sweeps } from "./sweeps.js";

@Controller()
class Routes {
  constructor(@Inject("settings") private readonly settings: Settings, @Inject(Sweeps) private readonly sweeps: Sweeps) {}

  @Get("healthz")
  health() {
    return "well";
  }

  /** Road A. Soloist calls it once a slot; by hand (`kubectl soloist trigger`) it has no scheduled time. */
  @Post("internal/sweeps/:name")
  @HttpCode(200)
  async sweep(
    @Param("name") name: Name,
    @Headers("authorization") authorization?: string,
    @Headers("soloist-scheduled-time") slot = new Date().toISOString(),
  ) {
    if (this.settings.road !== "endpoint" || !NAMES.includes(name)) throw new NotFoundException();
    if (authorization !== `Bearer ${this.settings.token}`) throw new UnauthorizedException();
    const sweeping = this.sweeps.sweep(name, slot);
    if (!sweeping) throw new ConflictException("This instance sweeps it already, or is going away.");
    return sweeping;
  }
}

@Module({ controllers: [Routes], providers: [{ provide: "settings", useFactory: settings }, Gigs, Sweeps] })
class Backend {}

try {
  const app = await NestFactory.create(Backend, { logger: ["error", "warn"], abortOnError: false });
  app.enableShutdownHooks();
  const { port } = app.get<Settings>("settings");
  await app.listen(port);
  console.log(`listening on ${port}`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
