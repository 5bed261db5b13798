/** Charts of the last 24 hours: inline SVG, with a text and a table of the numbers for screen readers. */
import type { DeliveryHour } from "#lib/client/api-types.ts";
import { html, type Html, type Part } from "../html.ts";
import { table } from "../parts.ts";
import type { Visit } from "../visit.ts";

const [WIDTH, HEIGHT] = [320, 80];
/** Width of a bar as a fraction of an hour's width; the rest is the gap. */
const BAR = 0.75;
/** Distance of two labels on the axis, in hours. */
const MARK_EVERY = 6;
/** Least height of a bar that is not zero, so that it is visible. */
const LEAST_HEIGHT = 2;

interface Series {
  readonly title: string;
  /** Text of the whole day's figure. */
  readonly sum: string;
  /** Text of the value at the top of the chart. */
  readonly top: string;
  readonly most: number;
  readonly value: (hour: DeliveryHour) => number | null;
  /** The part of the value that failed; `legend` names it. */
  readonly bad?: (hour: DeliveryHour) => number;
  readonly legend?: string | undefined;
  readonly text: (value: number) => string;
}

const share = (part: number, whole: number): number => Math.floor((part / whole) * 1_000) / 10;
/** Returns how many of the ended deliveries were delivered, in percent. What is still retried has not ended. */
const success = ({ delivered, dead_lettered: dead }: DeliveryHour): number | null =>
  delivered + dead === 0 ? null : share(delivered, delivered + dead);
const counted = (count: number): string => count.toLocaleString("en");
const deliveries = (count: number): string => `${counted(count)} ${count === 1 ? "delivery" : "deliveries"}`;
const attemptsText = (count: number): string => `${counted(count)} ${count === 1 ? "attempt" : "attempts"}`;
const percent = (value: number): string => `${value} %`;
const duration = (ms: number): string =>
  ms < 1_000
    ? `${Math.round(ms)} ms`
    : ms < 60_000
      ? `${(ms / 1_000).toFixed(1)} s`
      : `${counted(Math.round(ms / 60_000))} min`;

function seriesOf(hours: readonly DeliveryHour[]): readonly Series[] {
  const sum = (value: (hour: DeliveryHour) => number): number =>
    hours.reduce((all, hour) => all + value(hour), 0);
  const total = sum((hour) => hour.total);
  const most = Math.max(1, ...hours.map((hour) => hour.total));
  const slowest = Math.max(1, ...hours.map(({ latency_p95_ms: latency }) => latency ?? 0));
  const attempts = sum((hour) => hour.attempts);
  const mostAttempts = Math.max(1, ...hours.map((hour) => hour.attempts));
  const failedAttempts = sum((hour) => hour.failed_attempts);
  const [delivered, dead] = [sum((hour) => hour.delivered), sum((hour) => hour.dead_lettered)];
  return [
    {
      title: "Attempts",
      sum:
        attempts === 0
          ? "none"
          : `${counted(attempts)}, ${percent(share(attempts - failedAttempts, attempts))} succeeded`,
      top: counted(mostAttempts),
      most: mostAttempts,
      value: (hour) => (hour.attempts === 0 ? null : hour.attempts),
      bad: (hour) => hour.failed_attempts,
      legend: failedAttempts > 0 ? "failed" : undefined,
      text: attemptsText,
    },
    {
      title: "Volume",
      sum: deliveries(total),
      top: counted(most),
      most,
      value: ({ total }) => (total === 0 ? null : total),
      bad: (hour) => hour.dead_lettered,
      legend: dead > 0 ? "dead letters" : undefined,
      text: deliveries,
    },
    {
      title: "Delivered in the end",
      sum: delivered + dead === 0 ? "none has ended" : percent(share(delivered, delivered + dead)),
      top: "100 %",
      most: 100,
      value: success,
      bad: (hour) => (success(hour) === 0 ? 1 : 0),
      text: percent,
    },
    {
      title: "Latency, 95th percentile",
      sum: `${duration(slowest)} at most`,
      top: duration(slowest),
      most: slowest,
      value: ({ latency_p95_ms: latency }) => latency,
      text: duration,
    },
  ];
}

const clock = ({ hour }: DeliveryHour): string => hour.slice(11, 16);
/** Marks an element whose clock time the script converts to the reader's time zone. */
const zonedHour = ({ hour }: DeliveryHour): Html => html`data-hour="${hour.slice(0, 16)}Z"`;

function bar(index: number, height: number, step: number, kind?: string): Html {
  return html`<rect
    ${kind !== undefined && html`class="${kind}"`}
    x="${(index * step).toFixed(1)}"
    y="${(HEIGHT - height).toFixed(1)}"
    width="${(step * BAR).toFixed(1)}"
    height="${height.toFixed(1)}"
  />`;
}

function chart(hours: readonly DeliveryHour[], series: Series): Html {
  const { title, sum, top, most, value, bad, text } = series;
  const step = WIDTH / Math.max(1, hours.length);
  const scaled = (number: number): number =>
    number === 0 ? 0 : Math.max(LEAST_HEIGHT, Math.min(1, number / most) * HEIGHT);
  const bars = hours.map((hour, index) => {
    const number = value(hour);
    const failed = bad?.(hour) ?? 0;
    return (
      number !== null &&
      html`<g>
        <title ${zonedHour(hour)}>${clock(hour)} UTC: ${text(number)}</title>
        ${bar(index, scaled(number), step)}${failed > 0 && bar(index, scaled(failed), step, "bad")}
      </g>`
    );
  });
  const marks = hours.map(
    (hour, index) =>
      // Labels of the last hours would be cut off at the edge.
      index < hours.length - 2 &&
      Number(clock(hour).slice(0, 2)) % MARK_EVERY === 0 &&
      html`<text ${zonedHour(hour)} x="${(index * step).toFixed(1)}" y="${HEIGHT + 14}"
        >${clock(hour)}</text
      >`,
  );
  const legend = series.legend !== undefined && html`<span class="legend">${series.legend}</span>`;
  return html`<figure>
    <figcaption>${title} ${legend} <strong>${sum}</strong></figcaption>
    <svg
      class="chart"
      viewBox="0 -20 ${WIDTH} ${HEIGHT + 38}"
      role="img"
      aria-label="${title} by hour: ${sum}"
    >
      <path d="M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT}H${WIDTH}" />
      ${bars} ${marks}
      <text class="top" x="${WIDTH}" y="-6">${top}</text>
    </svg>
  </figure>`;
}

function row(hour: DeliveryHour): Part[] {
  const delivered = success(hour);
  const latency = (ms: number | null): string => (ms === null ? "–" : duration(ms));
  return [
    html`<span ${zonedHour(hour)}>${clock(hour)} UTC</span>`,
    counted(hour.total),
    delivered === null ? "–" : percent(delivered),
    counted(hour.dead_lettered),
    counted(hour.attempts),
    counted(hour.failed_attempts),
    latency(hour.latency_p50_ms),
    latency(hour.latency_p95_ms),
  ];
}

export function chartsSection(hours: readonly DeliveryHour[]): Html {
  const busy = hours.filter(({ total, attempts }) => total > 0 || attempts > 0);
  return html`<section aria-labelledby="hours">
    <h2 id="hours">The last 24 hours</h2>
    ${
      busy.length === 0
        ? html`<p class="empty">
            No deliveries. Attempts, volume, success and latency per hour will appear here.
          </p>`
        : html`<div class="charts">${seriesOf(hours).map((series) => chart(hours, series))}</div>
            ${
              hours.some(({ complete }) => !complete) &&
              html`<p class="muted">
                For an hour with more than 1,000 deliveries, latency is that of the newest 1,000.
              </p>`
            }
            <details>
              <summary>Show the numbers</summary>
              ${table(
                "Deliveries by hour",
                [
                  "Hour",
                  "Deliveries",
                  "Delivered in the end",
                  "Dead letters",
                  "Attempts",
                  "Failed attempts",
                  "Median latency",
                  "95th percentile",
                ],
                busy.map(row),
              )}
            </details>`
    }
  </section>`;
}

/** Renders attempts, volume, success and latency by hour, of all deliveries or of one endpoint's. */
export async function hourCharts({ api }: Visit, endpointId?: string): Promise<Html> {
  const of = endpointId === undefined ? {} : { endpoint_id: endpointId };
  return chartsSection(await api.deliveries.stats(of));
}
