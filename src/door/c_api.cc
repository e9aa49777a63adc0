// include/longhaul.h over door::Client. No exception passes this file.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "door/client.h"
#include "io/socket.h"
#include "longhaul.h"

using longhaul::Code;
using longhaul::Result;
using longhaul::Status;

struct longhaul_door {
  std::unique_ptr<longhaul::door::Client> client;
  // What longhaul_saved handed out: the texts and shapes are the plan's.
  longhaul::checkpoint::StatePlan saved;
  std::vector<longhaul_tensor> saved_tensors;
};

namespace {

constexpr size_t kMaxTensorsGiven = longhaul::checkpoint::kMaxTensors;

int Tell(const Status& status, longhaul_error* error) {
  if (error != nullptr) {
    error->code = static_cast<int32_t>(status.code());
    std::snprintf(error->message, sizeof(error->message), "%s", status.message().c_str());
  }
  return static_cast<int>(status.code());
}

// Runs `body` and turns what it returns or throws into a code.
template <typename Body>
int AtTheEdge(longhaul_error* error, Body body) noexcept {
  try {
    return Tell(body(), error);
  } catch (const std::bad_alloc&) {
    return Tell(Status(Code::kResourceExhausted, "out of memory"), error);
  } catch (const std::exception& exception) {
    return Tell(Status(Code::kInternal, exception.what()), error);
  } catch (...) {
    return Tell(Status(Code::kInternal, "unknown exception"), error);
  }
}

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

// Where tensor `what` lies in a global one.
Result<longhaul::checkpoint::TensorPart> PartOf(const std::string& what, const longhaul_part& part,
                                                size_t dims) {
  if (dims > 0 && (part.shape == nullptr || part.offset == nullptr)) {
    return longhaul::InvalidArgument(what + " is a part with a null pointer");
  }
  return longhaul::checkpoint::TensorPart{
      part.of, {part.shape, part.shape + dims}, {part.offset, part.offset + dims}};
}

Status Register(longhaul_door* door, const longhaul_tensor* tensors, const longhaul_part* parts,
                size_t count) {
  if (door == nullptr) return NoDoor();
  if (count > kMaxTensorsGiven || (count > 0 && tensors == nullptr)) {
    return longhaul::InvalidArgument("bad number of tensors");
  }
  std::vector<longhaul::checkpoint::TensorInfo> infos;
  std::vector<std::span<std::byte>> memory;
  for (size_t i = 0; i < count; ++i) {
    const longhaul_tensor& tensor = tensors[i];
    const std::string what = "tensor " + std::to_string(i);
    if (tensor.name == nullptr || tensor.dtype == nullptr ||
        (tensor.shape == nullptr && tensor.dims > 0) ||
        (tensor.data == nullptr && tensor.bytes > 0)) {
      return longhaul::InvalidArgument(what + " has a null pointer");
    }
    if (tensor.dims > longhaul::checkpoint::kMaxDims) {
      return longhaul::InvalidArgument(what + " has more than 8 dimensions");
    }
    infos.push_back({tensor.name, tensor.dtype, {tensor.shape, tensor.shape + tensor.dims}});
    if (parts != nullptr && parts[i].of != nullptr) {
      ASSIGN_OR_RETURN(infos.back().part, PartOf(what, parts[i], tensor.dims));
    }
    memory.emplace_back(static_cast<std::byte*>(tensor.data), tensor.bytes);
  }
  ASSIGN_OR_RETURN(auto plan, longhaul::checkpoint::StatePlan::Create(std::move(infos)));
  for (size_t i = 0; i < count; ++i) {
    if (memory[i].size() != plan.bytes(i)) {
      return longhaul::InvalidArgument(
          "tensor " + plan.tensors()[i].name + " has " + std::to_string(memory[i].size()) +
          " bytes, its shape and dtype " + std::to_string(plan.bytes(i)));
    }
  }
  door->client->Register(std::move(plan), std::move(memory));
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
