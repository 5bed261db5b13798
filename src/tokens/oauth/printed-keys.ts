/**
 * Public keys whose private half a standard prints, by thumbprint (RFC 7638). A client with such a key has copied an
 * example. test/support/vectors/printed-keys.json has the keys.
 */
const THUMBPRINTS: Readonly<Record<string, readonly string[]>> = {
  "RFC 6979": ["DOvxvJiAdIqVWIkFt5hDtCunXLF0BV4-JGv4f-ALSm0", "l2tfkSzhekdOr24I18E1O_-49AlK14MTo7OxJMS7-HI"],
  "RFC 7515": ["IsUn6_e04MaShXFIISMp4kG62LWzMIPy_MvSA5pJgX8", "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U"],
  "RFC 7516": ["xtIsOV1FqKH77AI_A3jdTg5QfdabzqI-LNpYTPi0IgI", "_K0fXS8wlsT7Tn3vvZrs9qdKUIqi5AxQ5EVk41xi_BM"],
  "RFC 7517": [
    "cn-I_WNMClehiVp51i_0VpOENW1upEerA8sEam5hn-s",
    "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
    "D8R4-FeTJfzuDUy8bZ0c4hcwpul-Q11gCPs3mw6-R9Q",
  ],
  "RFC 7520": [
    "8izOqBCj1XBwWw0-iTcMv27pUKWwFvNmw-kutyfzf-g",
    "Rt-IyDEhXohvTl_ozKQ9YGflXGuDb3uu3QmqN2LoMwM",
    "h_jutvC-jg3Nwueq8LmdSybXykVsBwk4_5u5Y9JiS7E",
    "YlKlB7M2wnS0cPn_V7OW-FuDLuWdJ9z4OvPHmhGDfeE",
    "mn9TtdH1OfJlO91eUXaEGe9tTrDzowXs_n2wKGrqLN4",
    "rTtHPa7sf4UUCCKAww7j-XnhD2AKwOGNIsGDDipf_EM",
    "HsSFalww3yP-dO-lWGYgFcyV5H22oScIFc4V2Y6GOto",
    "mTVa39KNK8LI9ZgAkyqQOQayaqVO7DXurapqkzEbfMg",
    "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI",
  ],
  "RFC 8032": [
    "FtIu-VbGrfe_KB6CH7GNwODB72MNxj_ml11dEvO-7kk",
    "FVV5umTuau890q59V-4Ga_R6qWb7ON_ivJc4EjvCwTM",
    "lZI1vM7tnlYapaF5-cy86ptx0tT_8Av721hhiNB5ti4",
    "iiDHHfFVNG6ICMUTsicgrWf1igtFYZEK73xlobt1ah4",
  ],
  "RFC 8037": ["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"],
  "RFC 8152": ["xNnfOFTMgZSRM3KtGHQqavZGWGF00Fe54LZBYCIxr88"],
  "RFC 9421": [
    "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",
    "ydQXMtvbsOsZyFir-Y7A8t7fKEM1gbKPvyFkdpu4fvI",
    "BHj8s0GPnMEQtkaULIM-PLgEhLBbuGUQ1vMxmBWZzEo",
    "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA",
  ],
  "RFC 9500": [
    "LIstkoCvByn4jk8oZPvigQkzTzO9UwnGnE-VMlkZvYQ",
    "TLOWIUBG7ALE2U13WMeEAErmpD48gp8MllKbX_zBARE",
    "Fa5JHFzFB8yHv0Dk3rGTgtCQPXPr3q8midyfylf8CUU",
    "u88se-xodYvJqpVtfxKIhE6bv2S6Z9hy1ikqIcPciAE",
  ],
};

/** The standards that print the private halves of keys, by the thumbprint of the key. */
export const PRINTED_KEYS: ReadonlyMap<string, string> = new Map(
  Object.entries(THUMBPRINTS).flatMap(([standard, thumbprints]) =>
    thumbprints.map((thumbprint) => [thumbprint, standard] as const),
  ),
);
