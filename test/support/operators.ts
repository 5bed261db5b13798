/** Operators in addition to the bootstrap operator, which creates them. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { OperatorRole } from "#domain/operator-roles.ts";
import { type Answer, readAnswer } from "./answer.ts";
import type { TestApi } from "./api.ts";
import { bearer } from "./factories.ts";

export interface TestOperator {
  readonly id: string;
  readonly tokenId: string;
  readonly token: string;
}

/** Creates an operator with a token. */
export async function createOperator(api: TestApi, role: OperatorRole): Promise<TestOperator> {
  const { status, body } = await api.admin("POST", "/operators", { name: randomUUID(), role });
  expect(status).toBe(201);
  const id = String(body["id"]);
  const issued = await api.admin("POST", `/operators/${id}/tokens`, {});
  expect(issued.status).toBe(201);
  return { id, tokenId: String(issued.body["id"]), token: String(issued.body["token"]) };
}

/** Sends a request to the operators' API with or without a token. */
export async function askAs(
  api: TestApi,
  token: string | undefined,
  method: string,
  path: string,
): Promise<Answer> {
  const headers = token === undefined ? {} : bearer(token);
  return await readAnswer(await fetch(`${api.adminUrl}/admin/v1${path}`, { method, headers }));
}
