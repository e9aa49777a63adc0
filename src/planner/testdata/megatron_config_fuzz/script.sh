#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
TP=2   # inside a node
PP=2
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
GPT_MODEL_ARGS=(
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
    --vocab-size 50257
)
TRAINING_ARGS=(
    --micro-batch-size 4
    --global-batch-size $((WORLD_SIZE * 16))
    --lr 6.0e-5 --lr-decay-style cosine
    --bf16
    --train-iters 500000
)
MODEL_PARALLEL_ARGS=(--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP})
MODEL_PARALLEL_ARGS+=(--use-distributed-optimizer)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    "${TRAINING_ARGS[@]}" ${MODEL_PARALLEL_ARGS[@]} \
    --data-path $DATA_PATH --split 949,50,1
