// include/longhaul.h over worker_api::Client. No exception passes this file.

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "io/net/socket.h"
#include "longhaul.h"
#include "worker_api/c_edge.h"
#include "worker_api/client.h"

using longhaul::Result;
using longhaul::Status;
using longhaul::worker_api::AtTheEdge;

struct longhaul_worker {
  std::unique_ptr<longhaul::worker_api::Client> client;
  // What longhaul_saved handed out: the texts and shapes are the plan's.
  longhaul::checkpoint::StatePlan saved;
  std::vector<longhaul_tensor> saved_tensors;
  std::string way;  // what longhaul_snapshot_way handed out
};

namespace {

Status NullWorker() { return longhaul::InvalidArgument("the worker is null"); }

Result<std::unique_ptr<longhaul_worker>> Open() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string path = text("LONGHAUL_AGENT_SOCKET");
  if (path.empty()) {
    return longhaul::NotFound(
        "LONGHAUL_AGENT_SOCKET is not set: this process was not started by Longhaul");
  }
  const Result<uint64_t> rank = longhaul::ParseUint64(text("RANK"));
  if (!rank.ok() || *rank > 1u << 24) return longhaul::InvalidArgument("RANK is not a rank");
  const Result<uint64_t> attempt = longhaul::ParseUint64(text("LONGHAUL_ATTEMPT"));
  if (!attempt.ok()) return longhaul::InvalidArgument("LONGHAUL_ATTEMPT is not an attempt");
  Result<longhaul::io::Fd> socket = longhaul::io::ConnectUnix(path);
  if (!socket.ok()) return longhaul::Unavailable(socket.status().message());
  auto worker = std::make_unique<longhaul_worker>();
  ASSIGN_OR_RETURN(worker->client,
                   longhaul::worker_api::Client::Join(std::move(socket).value(),
                                                      static_cast<uint32_t>(*rank), *attempt));
  return worker;
}

Status Register(longhaul_worker* worker, const longhaul_tensor* tensors, const longhaul_part* parts,
                size_t count) {
  if (worker == nullptr) return NullWorker();
  ASSIGN_OR_RETURN(longhaul::worker_api::GivenTensors given,
                   longhaul::worker_api::TakeTensors(tensors, parts, count));
  worker->client->Register(std::move(given.plan), std::move(given.memory));
  return {};
}

}  // namespace

longhaul_worker* longhaul_open(longhaul_error* error) {
  longhaul_worker* opened = nullptr;
  AtTheEdge(error, [&]() -> Status {
    ASSIGN_OR_RETURN(std::unique_ptr<longhaul_worker> worker, Open());
    opened = worker.release();
    return {};
  });
  return opened;
}

void longhaul_close(longhaul_worker* worker) { delete worker; }

const char* longhaul_config(const longhaul_worker* worker) {
  return worker == nullptr ? "" : worker->client->welcome().config.c_str();
}
uint64_t longhaul_attempt(const longhaul_worker* worker) {
  return worker == nullptr ? 0 : worker->client->attempt();
}

int longhaul_phase(longhaul_worker* worker, longhaul_phase_kind phase, longhaul_error* error) {
  return AtTheEdge(error, [&] {
    return worker == nullptr ? NullWorker()
                             : worker->client->EnterPhase(static_cast<uint32_t>(phase));
  });
}

int longhaul_report_step(longhaul_worker* worker, const longhaul_step* step,
                         longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (worker == nullptr || step == nullptr) return NullWorker();
    longhaul::worker_api::StepMessage message;
    message.step = step->step;
    message.data_ns = step->data_ns;
    message.snapshot_ns = step->snapshot_ns;
    message.evaluation_ns = step->evaluation_ns;
    message.communication_ns = step->communication_ns;
    message.loss = step->loss;
    message.validation_loss = step->validation_loss;
    message.gradient_norm = step->gradient_norm;
    message.tokens = step->tokens;
    message.flops = step->flops;
    return worker->client->ReportStep(message);
  });
}

int longhaul_result(longhaul_worker* worker, const char* json, longhaul_error* error) {
  return AtTheEdge(error, [&] {
    return worker == nullptr || json == nullptr ? NullWorker() : worker->client->SendResult(json);
  });
}

int longhaul_register(longhaul_worker* worker, const longhaul_tensor* tensors, size_t count,
                      longhaul_error* error) {
  return AtTheEdge(error, [&] { return Register(worker, tensors, nullptr, count); });
}

int longhaul_register_parts(longhaul_worker* worker, const longhaul_tensor* tensors,
                            const longhaul_part* parts, size_t count, longhaul_error* error) {
  return AtTheEdge(error, [&] { return Register(worker, tensors, parts, count); });
}

int longhaul_saved(longhaul_worker* worker, const longhaul_tensor** tensors, size_t* count,
                   longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (worker == nullptr || tensors == nullptr || count == nullptr) return NullWorker();
    ASSIGN_OR_RETURN(worker->saved, worker->client->Saved());
    worker->saved_tensors.clear();
    for (size_t i = 0; i < worker->saved.size(); ++i) {
      const longhaul::checkpoint::TensorInfo& tensor = worker->saved.tensors()[i];
      worker->saved_tensors.push_back({tensor.name.c_str(), nullptr, worker->saved.bytes(i),
                                       tensor.dtype.c_str(), tensor.shape.data(),
                                       tensor.shape.size()});
    }
    *tensors = worker->saved_tensors.data();
    *count = worker->saved_tensors.size();
    return {};
  });
}

int longhaul_snapshot_due(longhaul_worker* worker, uint64_t step) {
  bool due = false;
  AtTheEdge(nullptr, [&]() -> Status {
    due = worker != nullptr && worker->client->SnapshotDue(step);
    return {};
  });
  return due ? 1 : 0;
}

int longhaul_snapshot(longhaul_worker* worker, uint64_t step, longhaul_error* error) {
  return AtTheEdge(
      error, [&] { return worker == nullptr ? NullWorker() : worker->client->Snapshot(step); });
}

int longhaul_snapshot_begin(longhaul_worker* worker, uint64_t step, longhaul_error* error) {
  return AtTheEdge(error, [&] {
    return worker == nullptr ? NullWorker() : worker->client->BeginSnapshot(step);
  });
}

int longhaul_snapshot_begin_staged(longhaul_worker* worker, uint64_t step, int64_t stopped_ns,
                                   int (*ready)(void* argument), void* argument,
                                   longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (worker == nullptr) return NullWorker();
    std::function<Status()> wait;
    if (ready != nullptr) {
      wait = [ready, argument]() -> Status {
        if (ready(argument) == 0) return {};
        return longhaul::Aborted("the state did not reach the memory from which it is copied");
      };
    }
    return worker->client->BeginStagedSnapshot(step, longhaul::Duration(stopped_ns),
                                               std::move(wait));
  });
}

int longhaul_snapshot_wait(longhaul_worker* worker, longhaul_error* error) {
  return AtTheEdge(
      error, [&] { return worker == nullptr ? NullWorker() : worker->client->WaitSnapshot(); });
}

const char* longhaul_snapshot_way(longhaul_worker* worker) {
  if (worker == nullptr) return "";
  const int code = AtTheEdge(nullptr, [&]() -> Status {
    worker->way = worker->client->SnapshotWay();
    return {};
  });
  return code == LONGHAUL_OK ? worker->way.c_str() : "";
}

int longhaul_restore(longhaul_worker* worker, uint64_t* step, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (worker == nullptr || step == nullptr) return NullWorker();
    ASSIGN_OR_RETURN(*step, worker->client->Restore());
    return {};
  });
}

int longhaul_data_lease(longhaul_worker* worker, longhaul_lease* lease, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (worker == nullptr || lease == nullptr) return NullWorker();
    const longhaul::worker_api::WelcomeContent& welcome = worker->client->welcome();
    *lease = {welcome.lease_samples, welcome.lease_global_batch, welcome.lease_seed,
              welcome.lease_first_step, welcome.lease_end_step};
    return {};
  });
}

uint64_t longhaul_sample(const longhaul_lease* lease, uint64_t position) {
  if (lease == nullptr || lease->samples == 0) return 0;
  // Every pass has its own order: the key is the seed and the pass, mixed.
  uint64_t state = lease->seed;
  uint64_t key = longhaul::SplitMix64(state) + position / lease->samples;
  key = longhaul::SplitMix64(key);
  return longhaul::Permutation(lease->samples, key).At(position % lease->samples);
}
