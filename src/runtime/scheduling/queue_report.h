// The state of a queue as clients see it.
#pragma once

#include <string>
#include <vector>

#include "proto/status.pb.h"
#include "scheduler/scheduler.h"
#include "spec/queue/queue.h"

namespace longhaul::runtime::scheduling {

// Converts the amounts, which have the dimensions of `models`; -1: unlimited.
proto::Amounts AmountsOf(const spec::SharedAmounts& amounts,
                         const std::vector<std::string>& models);

// The cluster in which a queue is described.
struct QueueReportContext {
  spec::SharedAmounts whole;               // what the cluster has
  const std::vector<std::string>& models;  // scheduler::Scheduler::QuotaModels
};

// Describes the queue of `view`. `declared` is the queue in the controller's file; null for the
// root, which no file declares.
proto::QueueStatus DescribeQueue(const scheduler::QueueView& view,
                                 const QueueReportContext& context,
                                 const spec::QueueSpec* declared);

}  // namespace longhaul::runtime::scheduling
