// region work
/** Next.js calls this once when the server starts. */
export async function register() {
  if (process.env.NEXT_RUNTIME === "nodejs") {
    const { shop } = await import("./lib/open.mjs");
    void shop().work();
  }
}
// endregion
