/** One page of a list by id, newest first: rows with `id < before`, and one more than the page holds. */
export interface RowPage {
  readonly limit: number;
  /** `null` for the first page. */
  readonly before: string | null;
}
