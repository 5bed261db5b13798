{{/*
A Deployment with its PodDisruptionBudget and its autoscaler. Arguments: root, component, wave (Argo CD's), env, names (of
volumes), mounts and volumes (further ones, as YAML), grace (seconds), pause (seconds before the process is told to stop),
named (a StatefulSet instead, whose pods have names)
*/}}
{{- define "signet.server" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .component -}}
{{- $name := printf "%s-%s" (include "signet.name" $root) .component -}}
{{- $scales := dig "autoscaling" "enabled" false $values -}}
apiVersion: apps/v1
kind: {{ ternary "StatefulSet" "Deployment" (hasKey . "named") }}
metadata:
  name: {{ $name }}
  labels:
    {{- include "signet.labels" . | nindent 4 }}
  annotations:
    argocd.argoproj.io/sync-wave: {{ .wave | quote }}
spec:
  {{- if $scales }}
  # No `replicas`: the autoscaler sets the number.
  {{- else }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  {{- if hasKey . "named" }}
  serviceName: {{ $name }}
  # An upgrade still replaces one pod after the other.
  podManagementPolicy: Parallel
  {{- else }}
  strategy:
    rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  {{- end }}
  selector:
    matchLabels:
      {{- include "signet.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "signet.selector" . | nindent 8 }}
      annotations:
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if $root.Values.hooks }}
        # Restarts the processes when their settings change.
        signet/settings: {{ printf "%s%s" (include "signet.commonSettings" $root) (include "signet.serviceSettings" $root) | sha256sum | trunc 16 | quote }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "signet.serviceAccount" $root }}
      {{- include "signet.pod" $root | nindent 6 }}
      terminationGracePeriodSeconds: {{ .grace }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.topologyKeys }}
      topologySpreadConstraints:
        {{- range $values.topologyKeys }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "signet.selector" $ | nindent 14 }}
        {{- end }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "signet.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .component }}]
          envFrom:
            - configMapRef: { name: {{ include "signet.name" $root }}-common }
            {{- if has .component (list "api" "worker" "all") }}
            - configMapRef: { name: {{ include "signet.name" $root }}-service }
            {{- end }}
          env:
            {{- .env | trim | nindent 12 }}
            {{- with $values.settings }}
            {{- include "signet.variables" (toYaml .) | trim | nindent 12 }}
            {{- end }}
          ports:
            {{- if eq .component "hub" }}
            - { name: hub, containerPort: 8446 }
            {{- else if ne .component "worker" }}
            - { name: https, containerPort: 8443 }
            {{- end }}
            - { name: metrics, containerPort: 9464 }
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          {{- include "signet.containerSecurity" $root | nindent 10 }}
          # Checks only the process, not its dependencies.
          livenessProbe:
            httpGet: { path: /healthz, port: metrics }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          # Checks its dependencies too. Without them, the pod gets no requests.
          readinessProbe:
            httpGet: { path: /readyz, port: metrics }
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 2
          startupProbe:
            httpGet: { path: /healthz, port: metrics }
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 60
          {{- with .pause }}
          # Load balancers stop sending requests before the process stops listening. Requests in progress then have 18 s.
          lifecycle:
            preStop:
              sleep: { seconds: {{ . }} }
          {{- end }}
          volumeMounts:
            {{- include "signet.mounts" . | trim | nindent 12 }}
            {{- with .mounts }}
            {{- . | trim | nindent 12 }}
            {{- end }}
      volumes:
        {{- include "signet.volumes" . | trim | nindent 8 }}
        {{- with .volumes }}
        {{- . | trim | nindent 8 }}
        {{- end }}
{{- with $values.podDisruptionBudget }}
{{- if .enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "signet.labels" $ | nindent 4 }}
spec:
  maxUnavailable: {{ .maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "signet.selector" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- if $scales }}
---
{{ include "signet.autoscaler" (dict "root" $root "component" .component "name" $name) }}
{{- end }}
{{- end -}}

{{/* Arguments: root, component, name */}}
{{- define "signet.autoscaler" -}}
{{- with index .root.Values .component "autoscaling" -}}
{{- $lag := .lag | default (dict "by" "none") -}}
{{- if eq $lag.by "keda" -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ $.name }}
  labels:
    {{- include "signet.labels" $ | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ $.name }} }
  minReplicaCount: {{ .minReplicas }}
  maxReplicaCount: {{ .maxReplicas }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown:
          stabilizationWindowSeconds: {{ .scaleDownSeconds }}
  triggers:
    - type: cpu
      metricType: Utilization
      metadata: { value: {{ .cpuPercent | quote }} }
    # Every worker reports the same age.
    - type: prometheus
      metricType: Value
      metadata:
        serverAddress: {{ $lag.prometheusUrl }}
        query: max(signet_oldest_unattempted_seconds{namespace="{{ $.root.Release.Namespace }}"})
        threshold: {{ $lag.seconds | quote }}
{{- else -}}
{{- if eq $.component "worker" -}}
# Sending costs CPU. A backlog without high CPU shows in signet_oldest_unattempted_seconds.
{{ end -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $.name }}
  labels:
    {{- include "signet.labels" $ | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ $.name }} }
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ .cpuPercent }} }
    {{- if eq $lag.by "podsMetric" }}
    # Every worker reports the same age, so the average counts, not the sum.
    - type: Pods
      pods:
        metric: { name: signet_oldest_unattempted_seconds }
        target: { type: AverageValue, averageValue: {{ $lag.seconds | quote }} }
    {{- end }}
  behavior:
    scaleDown:
      stabilizationWindowSeconds: {{ .scaleDownSeconds }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
A Job that runs before the processes. Arguments: root, component, wave, args, env, names (of volumes), resources, hook, weight,
retries, failAt (exit code that a retry does not change)
*/}}
{{- define "signet.job" -}}
{{- $root := .root -}}
{{- $common := include "signet.commonSettings" $root -}}
{{- $service := include "signet.serviceSettings" $root -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "signet.name" $root }}-{{ .component }}{{ if $root.Values.allInside.enabled }}-{{ $root.Release.Revision }}{{ end }}
  labels:
    {{- include "signet.labels" . | nindent 4 }}
  {{- if $root.Values.hooks }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-weight: {{ .weight | quote }}
  {{- else if .wave }}
  annotations:
    argocd.argoproj.io/sync-wave: {{ .wave | quote }}
    argocd.argoproj.io/sync-options: Replace=true,Force=true
  {{- end }}
spec:
  backoffLimit: {{ .retries }}
  activeDeadlineSeconds: 1800
  ttlSecondsAfterFinished: 86400
  {{- with .failAt }}
  # Temporal denied a right that only an administrator has. The log names the commands for one.
  podFailurePolicy:
    rules:
      - action: FailJob
        onExitCodes: { containerName: {{ $.component }}, operator: In, values: [{{ . }}] }
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "signet.selector" . | nindent 8 }}
    spec:
      restartPolicy: Never
      {{- if and $root.Values.hooks $root.Values.serviceAccount.create }}
      # A hook runs before the release's own account exists. Neither has a token in the pod.
      serviceAccountName: default
      {{- else }}
      serviceAccountName: {{ include "signet.serviceAccount" $root }}
      {{- end }}
      {{- include "signet.pod" $root | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "signet.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ .args }}
          {{- if $root.Values.hooks }}
          # A hook runs before the release's ConfigMaps exist.
          env:
            {{- include "signet.variables" $common | trim | nindent 12 }}
            {{- include "signet.variables" $service | trim | nindent 12 }}
            {{- with .env }}
            {{- . | trim | nindent 12 }}
            {{- end }}
          {{- else }}
          envFrom:
            - configMapRef: { name: {{ include "signet.name" $root }}-common }
            - configMapRef: { name: {{ include "signet.name" $root }}-service }
          {{- with .env }}
          env:
            {{- . | trim | nindent 12 }}
          {{- end }}
          {{- end }}
          resources:
            {{- toYaml .resources | nindent 12 }}
          {{- include "signet.containerSecurity" $root | nindent 10 }}
          volumeMounts:
            {{- include "signet.mounts" . | trim | nindent 12 }}
      volumes:
        {{- include "signet.volumes" . | trim | nindent 8 }}
{{- end -}}
