// include/longhaul.h over door::Client. No exception passes this file.

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "door/c_edge.h"
#include "door/client.h"
#include "io/socket.h"
#include "longhaul.h"

using longhaul::Code;
using longhaul::Result;
using longhaul::Status;
using longhaul::door::AtTheEdge;

struct longhaul_door {
  std::unique_ptr<longhaul::door::Client> client;
  // What longhaul_saved handed out: the texts and shapes are the plan's.
  longhaul::checkpoint::StatePlan saved;
  std::vector<longhaul_tensor> saved_tensors;
  std::string way;  // what longhaul_snapshot_way handed out
};

namespace {

Status NoDoor() { return longhaul::InvalidArgument("the door is null"); }

Result<std::unique_ptr<longhaul_door>> Open() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string path = text("LONGHAUL_DOOR");
  if (path.empty()) {
    return longhaul::NotFound("LONGHAUL_DOOR is not set: this process was not started by Longhaul");
  }
  const Result<uint64_t> rank = longhaul::ParseUint64(text("RANK"));
  if (!rank.ok() || *rank > 1u << 24) return longhaul::InvalidArgument("RANK is not a rank");
  const Result<uint64_t> epoch = longhaul::ParseUint64(text("LONGHAUL_EPOCH"));
  if (!epoch.ok()) return longhaul::InvalidArgument("LONGHAUL_EPOCH is not an epoch");
  Result<longhaul::io::Fd> socket = longhaul::io::ConnectUnix(path);
  if (!socket.ok()) return longhaul::Unavailable(socket.status().message());
  auto door = std::make_unique<longhaul_door>();
  ASSIGN_OR_RETURN(door->client,
                   longhaul::door::Client::Join(std::move(socket).value(),
                                                static_cast<uint32_t>(*rank), *epoch));
  return door;
}

Status Register(longhaul_door* door, const longhaul_tensor* tensors, const longhaul_part* parts,
                size_t count) {
  if (door == nullptr) return NoDoor();
  ASSIGN_OR_RETURN(longhaul::door::GivenTensors given,
                   longhaul::door::TakeTensors(tensors, parts, count));
  door->client->Register(std::move(given.plan), std::move(given.memory));
  return {};
}

}  // namespace

longhaul_door* longhaul_open(longhaul_error* error) {
  longhaul_door* opened = nullptr;
  AtTheEdge(error, [&]() -> Status {
    ASSIGN_OR_RETURN(std::unique_ptr<longhaul_door> door, Open());
    opened = door.release();
    return {};
  });
  return opened;
}

void longhaul_close(longhaul_door* door) { delete door; }

const char* longhaul_config(const longhaul_door* door) {
  return door == nullptr ? "" : door->client->welcome().config.c_str();
}
uint64_t longhaul_epoch(const longhaul_door* door) {
  return door == nullptr ? 0 : door->client->epoch();
}

int longhaul_phase(longhaul_door* door, longhaul_phase_kind phase, longhaul_error* error) {
  return AtTheEdge(error, [&] {
    return door == nullptr ? NoDoor() : door->client->EnterPhase(static_cast<uint32_t>(phase));
  });
}

int longhaul_report_step(longhaul_door* door, const longhaul_step* step, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (door == nullptr || step == nullptr) return NoDoor();
    longhaul::door::StepMessage message;
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
    return door->client->ReportStep(message);
  });
}

int longhaul_result(longhaul_door* door, const char* json, longhaul_error* error) {
  return AtTheEdge(error, [&] {
    return door == nullptr || json == nullptr ? NoDoor() : door->client->SendResult(json);
  });
}

int longhaul_register(longhaul_door* door, const longhaul_tensor* tensors, size_t count,
                      longhaul_error* error) {
  return AtTheEdge(error, [&] { return Register(door, tensors, nullptr, count); });
}

int longhaul_register_parts(longhaul_door* door, const longhaul_tensor* tensors,
                            const longhaul_part* parts, size_t count, longhaul_error* error) {
  return AtTheEdge(error, [&] { return Register(door, tensors, parts, count); });
}

int longhaul_saved(longhaul_door* door, const longhaul_tensor** tensors, size_t* count,
                   longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (door == nullptr || tensors == nullptr || count == nullptr) return NoDoor();
    ASSIGN_OR_RETURN(door->saved, door->client->Saved());
    door->saved_tensors.clear();
    for (size_t i = 0; i < door->saved.size(); ++i) {
      const longhaul::checkpoint::TensorInfo& tensor = door->saved.tensors()[i];
      door->saved_tensors.push_back({tensor.name.c_str(), nullptr, door->saved.bytes(i),
                                     tensor.dtype.c_str(), tensor.shape.data(),
                                     tensor.shape.size()});
    }
    *tensors = door->saved_tensors.data();
    *count = door->saved_tensors.size();
    return {};
  });
}

int longhaul_snapshot_due(longhaul_door* door, uint64_t step) {
  bool due = false;
  AtTheEdge(nullptr, [&]() -> Status {
    due = door != nullptr && door->client->SnapshotDue(step);
    return {};
  });
  return due ? 1 : 0;
}

int longhaul_snapshot(longhaul_door* door, uint64_t step, longhaul_error* error) {
  return AtTheEdge(error,
                   [&] { return door == nullptr ? NoDoor() : door->client->Snapshot(step); });
}

int longhaul_snapshot_begin(longhaul_door* door, uint64_t step, longhaul_error* error) {
  return AtTheEdge(error,
                   [&] { return door == nullptr ? NoDoor() : door->client->BeginSnapshot(step); });
}

int longhaul_snapshot_wait(longhaul_door* door, longhaul_error* error) {
  return AtTheEdge(error,
                   [&] { return door == nullptr ? NoDoor() : door->client->WaitSnapshot(); });
}

const char* longhaul_snapshot_way(longhaul_door* door) {
  if (door == nullptr) return "";
  const int code = AtTheEdge(nullptr, [&]() -> Status {
    door->way = door->client->SnapshotWay();
    return {};
  });
  return code == LONGHAUL_OK ? door->way.c_str() : "";
}

int longhaul_restore(longhaul_door* door, uint64_t* step, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (door == nullptr || step == nullptr) return NoDoor();
    ASSIGN_OR_RETURN(*step, door->client->Restore());
    return {};
  });
}

int longhaul_data_lease(longhaul_door* door, longhaul_lease* lease, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (door == nullptr || lease == nullptr) return NoDoor();
    const longhaul::door::WelcomeContent& welcome = door->client->welcome();
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
