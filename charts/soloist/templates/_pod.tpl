{{/* The Pod of a component: under the restricted Pod Security Standard, with three probes. */}}

{{- define "soloist.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ . }}
runAsGroup: {{ . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "soloist.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Every setting as a flag; a list with commas; what is empty is left to the program. */}}
{{- define "soloist.flags" -}}
{{- range $name, $value := . }}
{{- if kindIs "slice" $value }}
{{- with $value }}
- --{{ kebabcase $name }}={{ join "," . }}
{{- end }}
{{- else if ne (toString $value) "" }}
- --{{ kebabcase $name }}={{ $value }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "soloist.pod" -}}
{{- $own := index .root.Values .component -}}
{{- $external := and (eq .component "controller") .root.Values.externalMetrics.enabled -}}
metadata:
  labels:
    {{- include "soloist.selector" . | nindent 4 }}
    {{- with $own.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: {{ .component }}
    {{- with $own.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "soloist.account" . }}
  automountServiceAccountToken: {{ $own.serviceAccount.automountToken }}
  enableServiceLinks: false
  # No preStop hook: nothing is sent to these Pods, so there is nothing to wait for before SIGTERM.
  terminationGracePeriodSeconds: {{ add (ceil $own.settings.grace) 5 }}
  securityContext:
    {{- include "soloist.podSecurity" .root | nindent 4 }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "soloist.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        - {{ .component }}
        {{- range .root.Values.namespaces }}
        - --namespace={{ . }}
        {{- end }}
        {{- .flags | nindent 8 }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- if or (eq .component "controller") .root.Values.worker.podDeletionCost }}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- end }}
        {{- if eq .component "controller" }}
        - name: POD_UID
          valueFrom: {fieldRef: {fieldPath: metadata.uid}}
        {{- end }}
        {{- with $own.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: health, containerPort: 8080, protocol: TCP}
        {{- if $external }}
        - {name: metrics-api, containerPort: 8443, protocol: TCP}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: health}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: health}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: health}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      securityContext:
        {{- include "soloist.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      volumeMounts:
        - {name: scratch, mountPath: /tmp}
        {{- if $external }}
        - {name: external-metrics, mountPath: /etc/soloist/external-metrics, readOnly: true}
        {{- end }}
        {{- with $own.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: scratch
      emptyDir: {medium: Memory, sizeLimit: 16Mi}
    {{- if $external }}
    - name: external-metrics
      secret:
        secretName: {{ default (printf "%s-external-metrics" (include "soloist.fullname" .root)) .root.Values.externalMetrics.existingSecret }}
        items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
    {{- end }}
    {{- with $own.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $own.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if $own.topologySpreadConstraints }}
    {{- toYaml $own.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "soloist.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
    {{- end }}
{{- end -}}
