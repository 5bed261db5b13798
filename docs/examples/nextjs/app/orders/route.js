// region orders
import { shop } from "../../lib/open.mjs";

export async function POST(request) {
  const { item } = await request.json();
  return Response.json(await shop().pay(String(item)), { status: 201 });
}
// endregion
