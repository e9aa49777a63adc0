#include "service/agent/worker_environment.h"

#include <cstdint>
#include <utility>

#include "io/process/process.h"
#include "runtime/agent/worker_devices.h"
#include "runtime/rendezvous/torchrun.h"

namespace longhaul::service {
namespace {

// The first step at which a planned fault kills this worker, alone or with its node; 0: none. The
// job's faults are those that have not been injected yet.
uint64_t FaultStepOf(const proto::StartWorkers& start, uint32_t rank) {
  uint64_t first = 0;
  for (const proto::PlannedFault& fault : start.job().faults()) {
    const bool of_worker = fault.kind() == proto::PlannedFault::KILL_WORKER;
    const bool of_node = fault.kind() == proto::PlannedFault::KILL_AGENT ||
                         fault.kind() == proto::PlannedFault::KILL_NODE;
    if (!(of_worker && fault.target() == rank) &&
        !(of_node && fault.target() == start.node_rank())) {
      continue;
    }
    if (first == 0 || fault.step() < first) first = fault.step();
  }
  return first;
}

}  // namespace

Result<std::map<std::string, std::string>> EnvironmentOfWorker(const runtime::SpawnWorker& order,
                                                               const WorkerSettings& settings) {
  const proto::StartWorkers& start = *order.start;
  std::map<std::string, std::string> base = io::CurrentEnvironment();
  for (const auto& [name, value] : start.job().workload().environment()) base[name] = value;
  runtime::WorkerPlace place;
  place.node_rank = start.node_rank();
  place.nodes = start.nodes();
  place.first_rank = start.first_rank();
  place.local_rank = order.worker.rank - start.first_rank();
  place.local_ranks = start.local_ranks();
  place.world = start.world();
  place.master_address = start.master_address();
  place.master_port = static_cast<uint16_t>(start.master_port());
  place.restart_count = start.restart_count();
  place.max_restarts = start.job().max_restarts();
  // Named by --rdzv-id and --role.
  const auto& named = start.job().workload().environment();
  const auto run_id = named.find("TORCHELASTIC_RUN_ID");
  const auto role = named.find("ROLE_NAME");
  place.run_id = run_id == named.end() ? order.worker.job.value() : run_id->second;
  if (role != named.end()) place.role = role->second;
  place.error_file = settings.error_file;
  place.torch_version = start.job().workload().torch_version();
  std::map<std::string, std::string> environment =
      runtime::WorkerEnvironment(place, std::move(base));
  environment[kSocketVariable] = settings.worker_api;
  environment["LONGHAUL_ATTEMPT"] = std::to_string(order.worker.attempt);
  environment.erase("LONGHAUL_FAULT_STEP");
  if (const uint64_t step = FaultStepOf(start, order.worker.rank); step > 0) {
    environment["LONGHAUL_FAULT_STEP"] = std::to_string(step);
  }
  // Gloo connects to the address of the host's name otherwise, which often is one of loopback.
  if (start.nodes() > 1 && !settings.network_interface.empty()) {
    environment.try_emplace("GLOO_SOCKET_IFNAME", settings.network_interface);
  }
  if (!settings.library.empty()) environment.try_emplace("LONGHAUL_LIBRARY", settings.library);
  if (!settings.python_packages.empty()) {
    // Last, so that folders that the user names come first.
    std::string& path = environment["PYTHONPATH"];
    path += (path.empty() ? "" : ":") + settings.python_packages;
  }
  // Python holds back what it writes to a file until there are 8 KiB of it: steps would come late.
  const bool reads_output = !start.job().workload().step_pattern().empty();
  if (reads_output) environment.try_emplace("PYTHONUNBUFFERED", "1");
  const std::vector<uint32_t> devices(start.devices().begin(), start.devices().end());
  const std::map<std::string, std::string> own(named.begin(), named.end());
  RETURN_IF_ERROR(runtime::agent::AssignDevices(devices, own, environment));
  return environment;
}

std::vector<std::string> MarkOf(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> mark;
  for (const char* name : {kSocketVariable, "RANK"}) {
    mark.push_back(std::string(name) + "=" + environment.at(name));
  }
  return mark;
}

}  // namespace longhaul::service
