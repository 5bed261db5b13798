/** The last 24 hours as pictures: inline SVG, with the numbers in words and in a table for who does not see it. */
import type { DeliveryHour } from "../../client/deliveries.ts";
import { html, type Html, type Part } from "../html.ts";
import { table } from "../parts.ts";

const [WIDTH, HEIGHT] = [480, 96];
const BAR = 14;

interface Series {
  readonly title: string;
  readonly unit: string;
  readonly value: (hour: DeliveryHour) => number | null;
}

const success = ({ total, delivered }: DeliveryHour): number | null =>
  total === 0 ? null : Math.round((delivered / total) * 100);

const SERIES: readonly Series[] = [
  { title: "Volume", unit: "deliveries", value: ({ total }) => total },
  { title: "Delivered", unit: "%", value: success },
  { title: "Latency, 95th percentile", unit: "ms", value: ({ latency_p95_ms: latency }) => latency },
];

function chart(hours: readonly DeliveryHour[], { title, unit, value }: Series): Html {
  const values = hours.map(value);
  const most = Math.max(1, ...values.map((number) => number ?? 0));
  const step = WIDTH / Math.max(1, hours.length);
  const bars = values.map((number, index) => {
    const height = ((number ?? 0) / most) * HEIGHT;
    return html`<rect
      x="${(index * step).toFixed(1)}"
      y="${(HEIGHT - height).toFixed(1)}"
      width="${BAR}"
      height="${height.toFixed(1)}"
    />`;
  });
  return html`<figure>
    <figcaption>${title} <span class="muted">at most ${most} ${unit}</span></figcaption>
    <svg
      class="chart"
      viewBox="0 0 ${WIDTH} ${HEIGHT}"
      role="img"
      aria-label="${title} by hour, at most ${most} ${unit}"
    >
      ${bars}
    </svg>
  </figure>`;
}

function row(hour: DeliveryHour): Part[] {
  const share = success(hour);
  return [
    `${hour.hour.slice(11, 16)} UTC`,
    `${hour.complete ? "" : "more than "}${hour.total}`,
    share === null ? "–" : `${share} %`,
    hour.dead_lettered,
    hour.latency_p50_ms === null ? "–" : `${hour.latency_p50_ms} ms`,
    hour.latency_p95_ms === null ? "–" : `${hour.latency_p95_ms} ms`,
  ];
}

/** Volume, success and latency by hour. */
export function chartsSection(hours: readonly DeliveryHour[]): Html {
  return html`<section aria-labelledby="hours">
    <h2 id="hours">The last 24 hours</h2>
    <div class="charts">${SERIES.map((series) => chart(hours, series))}</div>
    ${
      hours.some(({ complete }) => !complete) &&
      html`<p class="muted">Of an hour with more than 1,000 deliveries, the newest 1,000 are shown.</p>`
    }
    <details>
      <summary>The numbers</summary>
      ${table(
        "Deliveries by hour",
        ["Hour", "Deliveries", "Delivered", "Dead letters", "Median latency", "95th percentile"],
        hours.filter(({ total }) => total > 0).map(row),
      )}
    </details>
  </section>`;
}
