#!/usr/bin/env bash
# Llama 3.1 405B on 16384 devices, for Megatron-LM core_v0.14.0 to core_v0.19.0.
# Data, tokenizer, learning rate and checkpoints are yours to add: "$@".
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nnodes=2048 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
  pretrain_gpt.py \
  --use-mcore-models \
  --num-layers 126 \
  --hidden-size 16384 \
  --ffn-hidden-size 53248 \
  --num-attention-heads 128 \
  --kv-channels 128 \
  --group-query-attention \
  --num-query-groups 8 \
  --seq-length 8192 \
  --max-position-embeddings 8192 \
  --vocab-size 128256 \
  --position-embedding-type rope \
  --normalization RMSNorm \
  --swiglu \
  --untie-embeddings-and-output-weights \
  --disable-bias-linear \
  --attention-dropout 0.0 \
  --hidden-dropout 0.0 \
  --tensor-model-parallel-size 8 \
  --sequence-parallel \
  --tp-comm-overlap \
  --pipeline-model-parallel-size 16 \
  --num-virtual-stages-per-pipeline-rank 8 \
  --account-for-embedding-in-pipeline-split \
  --account-for-loss-in-pipeline-split \
  --context-parallel-size 1 \
  --use-distributed-optimizer \
  --overlap-grad-reduce \
  --overlap-param-gather \
  --micro-batch-size 1 \
  --global-batch-size 2048 \
  --recompute-granularity selective \
  --recompute-modules layernorm mlp \
  --bf16 \
  --attention-backend flash \
  --cross-entropy-loss-fusion \
  "$@"
