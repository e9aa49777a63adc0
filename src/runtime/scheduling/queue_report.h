// The state of a queue as clients see it.
#pragma once

#include "proto/status.pb.h"
#include "scheduler/scheduler.h"
#include "spec/queue/queue.h"

namespace longhaul::runtime::scheduling {

// Converts the amounts; -1: unlimited.
proto::Amounts AmountsOf(const spec::SharedAmounts& amounts);

// Describes the queue of `view` in a cluster that has `whole`. `declared` is the queue in the
// controller's file; null for the root, which no file declares.
proto::QueueStatus DescribeQueue(const scheduler::QueueView& view, const spec::SharedAmounts& whole,
                                 const spec::QueueSpec* declared);

}  // namespace longhaul::runtime::scheduling
