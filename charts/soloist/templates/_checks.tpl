{{/* What the schema cannot say: values that contradict each other. */}}

{{- define "soloist.check" -}}
{{- with .Values.controller.settings -}}
{{- $trust := subf .leaseDuration .leaseMargin -}}
{{- if or (lt (float64 .leaseMargin) (divf .leaseDuration 10)) (ge (float64 .leaseMargin) (divf .leaseDuration 2)) -}}
{{- fail (printf "controller.settings.leaseMargin is %v: with a leaseDuration of %v write at least %v and less than %v." .leaseMargin .leaseDuration (divf .leaseDuration 10) (divf .leaseDuration 2)) -}}
{{- end -}}
{{- if gt (mulf .leaseRetryPeriod 3) (float64 $trust) -}}
{{- fail (printf "controller.settings.leaseRetryPeriod is %v: leaseDuration (%v) less leaseMargin (%v) must hold it three times; write at most %v." .leaseRetryPeriod .leaseDuration .leaseMargin (divf $trust 3 | toString | trunc 5)) -}}
{{- end -}}
{{- if gt (float64 .recordAhead) (float64 .claimAhead) -}}
{{- fail (printf "controller.settings.recordAhead is %v: write at most claimAhead (%v)." .recordAhead .claimAhead) -}}
{{- end -}}
{{- if le (float64 .stalenessLimit) (float64 .relist) -}}
{{- fail (printf "controller.settings.stalenessLimit is %v: every pause between two lists would stop all launches; write more than relist (%v)." .stalenessLimit .relist) -}}
{{- end -}}
{{- end -}}
{{- if .Values.namespaces -}}
{{- range .Values.secrets.namespaces -}}
{{- if not (has . $.Values.namespaces) -}}
{{- fail (printf "secrets.namespaces has %q, which is not served: name it in namespaces too, or take it out." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (has "*" .Values.secrets.namespaces) (gt (len .Values.secrets.namespaces) 1) -}}
{{- fail "secrets.namespaces has \"*\" beside names: write [\"*\"] for all namespaces, or names alone." -}}
{{- end -}}
{{- range $component := list "controller" "worker" -}}
{{- with (index $.Values $component).serviceAccount -}}
{{- if not (or .create .name) -}}
{{- fail (printf "%s.serviceAccount.create is false: write the name of one that exists in %s.serviceAccount.name." $component $component) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.externalMetrics -}}
{{- if and .enabled .existingSecret (not .caBundle) (not .annotations) -}}
{{- fail (printf "externalMetrics.existingSecret is %q, of which nobody knows the authority: write it in externalMetrics.caBundle, or in externalMetrics.annotations what injects it." .existingSecret) -}}
{{- end -}}
{{- end -}}
{{- with .Values.worker.autoscaling -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "worker.autoscaling.minReplicas is %v: write at most maxReplicas (%v)." .minReplicas .maxReplicas) -}}
{{- end -}}
{{- if and .enabled (not .targetCPUUtilizationPercentage) (not .metrics) -}}
{{- fail "worker.autoscaling has nothing to scale by: write targetCPUUtilizationPercentage or metrics, or enabled: false." -}}
{{- end -}}
{{- end -}}
{{- end -}}
