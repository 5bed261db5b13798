/** Alert rules are tested and documented. test/integration/observability/alert-rules.test.ts runs their tests. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const DIRECTORY = join(REPOSITORY, "deploy", "prometheus");

interface Rule {
  readonly alert: string;
  readonly labels: { readonly severity: string };
  readonly expr: string;
  readonly annotations: {
    readonly summary: string;
    readonly description: string;
    readonly runbook_url: string;
  };
}

async function rules(): Promise<readonly Rule[]> {
  const { groups } = parse(await readFile(join(DIRECTORY, "alerts.yml"), "utf8")) as {
    groups: readonly { readonly rules: readonly Rule[] }[];
  };
  return groups.flatMap((group) => group.rules);
}

describe("each alert", () => {
  it("has a test in which it fires and one in which it is quiet", async () => {
    const { tests } = parse(await readFile(join(DIRECTORY, "alerts.test.yml"), "utf8")) as {
      tests: readonly {
        readonly alert_rule_test: readonly {
          readonly alertname: string;
          readonly exp_alerts: readonly unknown[];
        }[];
      }[];
    };
    const tested = tests.flatMap(({ alert_rule_test: of }) => of);
    for (const { alert } of await rules()) {
      const fired = tested
        .filter(({ alertname }) => alertname === alert)
        .map((test) => test.exp_alerts.length > 0);
      expect(new Set(fired), alert).toEqual(new Set([true, false]));
    }
  });

  it("has a known severity and a section in the runbook at its link", async () => {
    const runbook = await readFile(join(REPOSITORY, "docs", "runbook.md"), "utf8");
    const headings = [...runbook.matchAll(/^## (\w+)$/gm)].map(([, heading = ""]) => heading);
    const alerts = await rules();
    expect(headings).toEqual(alerts.map(({ alert }) => alert));
    for (const { alert, labels, annotations } of alerts) {
      expect(["critical", "warning", "info"]).toContain(labels.severity);
      expect(annotations.description.length, alert).toBeGreaterThan(20);
      expect(annotations.runbook_url).toBe(
        `https://docs.example.com/signet/runbook.md#${alert.toLowerCase()}`,
      );
    }
  });

  it("does not depend on the name of the scrape job, and neither does the dashboard", async () => {
    const dashboard = await readFile(join(REPOSITORY, "deploy", "grafana", "dashboard.json"), "utf8");
    for (const { alert, expr } of await rules()) {
      expect(expr, alert).not.toMatch(/job *=/);
    }
    expect(dashboard).not.toMatch(/job *=/);
  });
});
