// region open
import { Shop } from "./shop.mjs";

/** Returns the process's shop. Next.js loads a module once for each bundle, so the shop is kept outside of modules. */
export function shop() {
  return (globalThis.shop ??= new Shop(process.env));
}
// endregion
