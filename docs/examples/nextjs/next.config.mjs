// Packages for servers stay outside the bundle.
export default { serverExternalPackages: ["pg", "signet"] };
