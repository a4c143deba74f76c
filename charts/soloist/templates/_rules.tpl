{{/* The rights of each part, as manifests/rbac has them. A test holds the two together; another proves that each is used. */}}

{{- define "soloist.controllerRules" -}}
- apiGroups: [soloist.dev]
  resources: [scheduledjobs]
  verbs: [get, list, watch]
- apiGroups: [soloist.dev]
  resources: [scheduledjobs/status]
  verbs: [update]
- apiGroups: [soloist.dev]
  resources: [jobruns/status]
  verbs: [patch]
- apiGroups: [soloist.dev]
  resources: [jobruns]
  verbs: [get, list, watch, create, delete]
{{- if .Values.actions.job }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
- apiGroups: [soloist.dev]
  resources: [workqueues]
  verbs: [get, list, watch]
- apiGroups: [soloist.dev]
  resources: [workqueues/status]
  verbs: [patch]
{{- if and .Values.actions.database (not .Values.namespaces) }}
{{ include "soloist.clusterUidRules" . }}
{{- end }}
{{- if .Values.events }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end -}}

{{- define "soloist.clusterUidRules" -}}
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- end -}}

{{- define "soloist.workerRules" -}}
- apiGroups: [soloist.dev]
  resources: [workqueues]
  verbs: [list, watch]
{{- end -}}

{{- define "soloist.leaderRules" -}}
# A right to create cannot be held to one name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "soloist.lease" . }}]
  verbs: [get, update, watch]
# The kubelet's word on the leader's container: a crashed leader is then replaced without waiting for its Lease to run out.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, watch]
{{- if and .Values.events .Values.namespaces }}
# What is about the Lease is told beside it.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end -}}

{{- define "soloist.deletionCostRules" -}}
# Names of Pods are not known beforehand; the admission policy holds this to the worker's own Pod and one annotation of it.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end -}}

{{- define "soloist.keysRules" -}}
- apiGroups: [""]
  resources: [secrets, configmaps]
  {{- with .Values.secrets.names }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
{{- end -}}

{{- define "soloist.externalMetricsClusterRoleRules" -}}
# Whether whoever asks may: the cluster says so, of each request.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{- define "soloist.externalMetricsRoleRules" -}}
# Which authority the API server's own certificate is of, and in which headers it says who asks. Nothing in it is secret.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [extension-apiserver-authentication]
  verbs: [get]
{{- end -}}
