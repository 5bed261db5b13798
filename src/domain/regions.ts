/** Pattern of a region, such as `eu` or `eu-west-1` (wire.md, Ids). Principals and tenants may also be `global`. */
export const REGION_PATTERN = "[a-z]{2}(-[a-z]+-[0-9])?";
export const REGION = new RegExp(`^${REGION_PATTERN}$`);
