{{/* What the objects are called and labelled. A component is "controller" or "worker". */}}

{{- define "soloist.fullname" -}}
{{- $joined := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- default $joined .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "soloist.selector" -}}
app.kubernetes.io/name: soloist
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Of any object; takes the root. */}}
{{- define "soloist.labels" -}}
app.kubernetes.io/name: soloist
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "soloist.account" -}}
{{- $own := ternary (include "soloist.fullname" .root) (printf "%s-worker" (include "soloist.fullname" .root)) (eq .component "controller") -}}
{{- default $own (index .root.Values .component "serviceAccount" "name") -}}
{{- end -}}

{{- define "soloist.subject" -}}
kind: ServiceAccount
name: {{ include "soloist.account" . }}
namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{- define "soloist.lease" -}}
{{- default (include "soloist.fullname" .) .Values.controller.settings.leaseName -}}
{{- end -}}

{{- define "soloist.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}
