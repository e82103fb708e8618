"""Operations: metrics, logs, probes and provider health."""
