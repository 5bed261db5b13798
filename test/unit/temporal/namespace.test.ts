/** The commands for an administrator of Temporal Cloud. Those for a server's are run in test/integration/temporal. */
import { expect, test } from "vitest";
import { AdministratorNeededError, ensureNamespace, type NamespaceConnection } from "#temporal/namespace.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

test.each(["signet.a1b2c.tmprl.cloud:7233", "eu-central-1.aws.api.temporal.io:7233"])(
  "at %s they are those of tcld",
  async (address) => {
    const refuse = async (): Promise<never> =>
      await Promise.reject(
        Object.assign(new Error("refused"), { code: 7, details: "refused", metadata: {} }),
      );
    const connection = {
      workflowService: { describeNamespace: refuse, registerNamespace: refuse },
    } as unknown as NamespaceConnection;
    const commands = await ensureNamespace(connection, {
      timers: time,
      namespace: "signet.a1b2c",
      address,
      apiKey: () => "key",
    }).catch((error: unknown) => (error instanceof AdministratorNeededError ? error.commands : error));
    expect(commands).toEqual([
      "tcld namespace create --namespace signet.a1b2c --region <region> --auth-method api_key --retention-days 3",
      "tcld namespace search-attributes add --namespace signet.a1b2c --search-attribute SignetTenant=KeywordList --search-attribute SignetEndpoint=KeywordList --search-attribute SignetDelivery=KeywordList --search-attribute SignetState=Keyword --search-attribute SignetOpen=Int --search-attribute SignetAttempt=Int --search-attribute SignetDead=Int --search-attribute SignetExpires=Datetime",
    ]);
  },
);
