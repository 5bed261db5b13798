{{/* Base of all names: the release's, if it contains the chart's. */}}
{{- define "signet.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that select the pods of a component, or all pods without one. Arguments: root, component */}}
{{- define "signet.selector" -}}
app.kubernetes.io/name: signet
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* All labels of an object. Arguments: root, component */}}
{{- define "signet.labels" -}}
{{ include "signet.selector" . }}
{{- if .root.Values.hooks }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}
{{- end -}}

{{- define "signet.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Name of a Secret. Arguments: root, of (the part behind the release's name) */}}
{{- define "signet.secret" -}}
{{- index .root.Values.secrets.names .of | default (printf "%s-%s" (include "signet.name" .root) .of) -}}
{{- end -}}

{{- define "signet.trust" -}}
{{- .Values.trust.configMap | default (printf "%s-trust" (include "signet.name" .)) -}}
{{- end -}}

{{- define "signet.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "signet.name" .) -}}
{{- end -}}

{{- define "signet.publicHost" -}}
{{- (urlParse .Values.publicUrl).hostname -}}
{{- end -}}

{{/* Host of this installation's own URL: that of its cell, or publicUrl. */}}
{{- define "signet.ownHost" -}}
{{- $url := .Values.publicUrl -}}
{{- range .Values.cells.all }}{{ if eq .region $.Values.cells.own }}{{ $url = .url }}{{ end }}{{ end -}}
{{- (urlParse $url).hostname -}}
{{- end -}}

{{/* Not empty in a cell that is not the home cell. */}}
{{- define "signet.away" -}}
{{- with .Values.cells.all }}{{ if ne (first .).region $.Values.cells.own }}away{{ end }}{{ end -}}
{{- end -}}

{{- define "signet.edgeIdentity" -}}
{{- $made := ternary (printf "DNS:%s-edge-client" (include "signet.name" .)) (printf "URI:spiffe://%s/edge" (include "signet.publicHost" .)) .Values.allInside.enabled -}}
{{- .Values.edge.identity | default $made -}}
{{- end -}}

{{/* Names in the certificates of hubs, and of edges as clients of hubs. */}}
{{- define "signet.hubIdentity" -}}
{{- $made := ternary (printf "DNS:%s-hub" (include "signet.name" .)) (printf "URI:spiffe://%s/hub" (include "signet.publicHost" .)) .Values.allInside.enabled -}}
{{- .Values.hub.identity | default $made -}}
{{- end -}}

{{/* URLs of the hubs that edges follow, with commas: those of the values, or the release's own. Empty: PostgreSQL. */}}
{{- define "signet.edgeHubs" -}}
{{- $urls := .Values.edge.hubs -}}
{{- if and (not $urls) .Values.hub.enabled -}}
{{- $name := include "signet.name" . -}}
{{- range $index := until (int .Values.hub.replicas) }}{{ $urls = append $urls (printf "wss://%s-hub-%d.%s-hub:8446" $name $index $name) }}{{ end -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/* Not empty if apis follow hubs too: those of a cell that is not the home cell, if there are any. */}}
{{- define "signet.apiHubs" -}}
{{- if include "signet.away" . }}{{ include "signet.edgeHubs" . }}{{ end -}}
{{- end -}}

{{/* Settings of a process that follows hubs. */}}
{{- define "signet.followHubs" }}
# It follows all of them, and PostgreSQL proves to it what it knows.
- { name: SIGNET_HUBS, value: {{ include "signet.edgeHubs" . | quote }} }
- { name: SIGNET_LEASE_KEY_FILE, value: /run/signet/lease/lease-key }
{{- include "signet.hubTls" (dict "root" . "from" "/run/signet/hub-client" "names" (list (include "signet.hubIdentity" .))) }}
{{- end }}

{{/* Settings by which a hub and what follows it know each other. Arguments: root, from (directory of the certificate), names */}}
{{- define "signet.hubTls" }}
- { name: SIGNET_HUB_CA_FILE, value: {{ ternary (printf "%s/ca.crt" .from) "/run/signet/trust/hubs-ca.crt" (eq .root.Values.certificates.source "certManager") }} }
- { name: SIGNET_HUB_NAMES, value: {{ join "," .names | quote }} }
- { name: SIGNET_HUB_KEY_FILE, value: {{ .from }}/tls.key }
- { name: SIGNET_HUB_CERT_FILE, value: {{ .from }}/tls.crt }
{{- end }}

{{/* The annotations of objects that the hooks need, and that therefore must exist before them. */}}
{{- define "signet.beforeHooks" -}}
{{- if .Values.hooks -}}
annotations:
  helm.sh/hook: pre-install,pre-upgrade
  helm.sh/hook-weight: "-10"
{{- end }}
{{- end -}}

{{/* Settings of every process. */}}
{{- define "signet.commonSettings" -}}
{{- $own := dict "SIGNET_PUBLIC_URL" .Values.publicUrl "SIGNET_METRICS_LISTEN" "0.0.0.0:9464" -}}
{{- if .Values.database.privateCa }}{{ $_ := set $own "SIGNET_DATABASE_CA_FILE" "/run/signet/trust/database-ca.crt" }}{{ end -}}
{{- with .Values.cells.all -}}
{{- $cells := list -}}
{{- range . }}{{ $cells = append $cells (printf "%s=%s" .region .url) }}{{ end -}}
{{- $_ := set $own "SIGNET_CELLS" (join "," $cells) -}}
{{- $_ := set $own "SIGNET_CELL" $.Values.cells.own -}}
{{- end -}}
{{- mergeOverwrite $own .Values.settings | toYaml -}}
{{- end -}}

{{/* Settings of every process except the edge. */}}
{{- define "signet.serviceSettings" -}}
{{- $own := dict
  "SIGNET_DATABASE_URL_FILE" "/run/signet/database/url"
  "TEMPORAL_ADDRESS" (include "signet.temporalAddress" .)
  "TEMPORAL_NAMESPACE" .Values.temporal.namespace
  "SIGNET_PEPPER_FILE" "/run/signet/keys/pepper"
  "SIGNET_KEK_FILE" "/run/signet/keys/kek"
  "SIGNET_CHECKPOINT_NAME" (.Values.checkpointName | default (printf "%s/log" (include "signet.ownHost" .))) -}}
{{- if include "signet.away" . }}{{ $_ := set $own "SIGNET_HOME_DATABASE_URL_FILE" "/run/signet/database-home/url" }}{{ end -}}
{{- if .Values.database.pooler }}{{ $_ := set $own "SIGNET_DATABASE_DIRECT_URL_FILE" "/run/signet/database/direct-url" }}{{ end -}}
{{- with .Values.temporal -}}
{{- if .privateCa }}{{ $_ := set $own "TEMPORAL_TLS_SERVER_CA_CERT_PATH" "/run/signet/trust/temporal-ca.crt" }}
{{- else if eq .authentication "none" }}{{ $_ := set $own "TEMPORAL_TLS" "true" }}{{ end -}}
{{- if .serverName }}{{ $_ := set $own "TEMPORAL_TLS_SERVER_NAME" .serverName }}{{ end -}}
{{- if eq .authentication "mtls" }}
{{- $_ := set $own "TEMPORAL_TLS_CLIENT_CERT_PATH" "/run/signet/temporal/tls.crt" -}}
{{- $_ := set $own "TEMPORAL_TLS_CLIENT_KEY_PATH" "/run/signet/temporal/tls.key" -}}
{{- else if eq .authentication "apiKey" }}
{{- $_ := set $own "TEMPORAL_API_KEY_FILE" "/run/signet/temporal/api-key" -}}
{{- end -}}
{{- end -}}
{{- mergeOverwrite $own .Values.serviceSettings | toYaml -}}
{{- end -}}

{{- define "signet.temporalAddress" -}}
{{- if .Values.allInside.enabled -}}
{{ include "signet.name" . }}-temporal:7233
{{- else -}}
{{ .Values.temporal.address }}
{{- end -}}
{{- end -}}

{{/* Volumes that every process except the edge mounts, as JSON. */}}
{{- define "signet.serviceVolumes" -}}
{{- $names := list "keys" "database" "trust" -}}
{{- if ne .Values.temporal.authentication "none" }}{{ $names = append $names "temporal" }}{{ end -}}
{{- if include "signet.away" . }}{{ $names = append $names "database-home" }}{{ end -}}
{{- toJson $names -}}
{{- end -}}

{{/* Mounts of volumes by name. Arguments: root, names */}}
{{- define "signet.mounts" -}}
{{- range .names }}
- { name: {{ . }}, mountPath: /run/signet/{{ . }}, readOnly: true }
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volumes. `tls` is the component's own. Arguments: root, component, names */}}
{{- define "signet.volumes" -}}
{{- $root := .root -}}
{{- $temporal := ternary "temporal-api-key" "temporal-client" (eq $root.Values.temporal.authentication "apiKey") -}}
{{- $secrets := dict "tls" (printf "%s-tls" (eq .component "all" | ternary "edge" .component)) "client" "edge-client" "temporal" $temporal -}}
{{- range .names }}
- name: {{ . }}
  {{- if eq . "trust" }}
  configMap: { name: {{ include "signet.trust" $root }} }
  {{- else }}
  secret: { secretName: {{ include "signet.secret" (dict "root" $root "of" (get $secrets . | default .)) }}, defaultMode: 288 }
  {{- end }}
{{- end }}
{{- with $root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Members that all pods of Signet share. */}}
{{- define "signet.pod" -}}
enableServiceLinks: false
automountServiceAccountToken: false
# Node is then not PID 1, so that a signal during startup ends it.
shareProcessNamespace: true
{{ include "signet.podSecurity" 1000 }}
{{- include "signet.beside" . }}
{{- end -}}

{{/* The containers beside the pod's own, and the secrets for images. */}}
{{- define "signet.beside" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.sidecars }}
initContainers:
  {{- range . }}
  - {{ mergeOverwrite (dict "restartPolicy" "Always") . | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Argument: the user */}}
{{- define "signet.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ . }}
  runAsGroup: {{ . }}
  fsGroup: {{ . }}
  seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "signet.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end -}}

{{/* Settings as a list of variables. Argument: the settings as YAML */}}
{{- define "signet.variables" -}}
{{- range $name, $value := fromYaml . }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end -}}
