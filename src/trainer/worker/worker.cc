#include "trainer/worker/worker.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "trainer/config.h"
#include "trainer/loop.h"
#include "trainer/model/model.h"
#include "trainer/parallel/communicators.h"
#include "trainer/worker/worker_api.h"

namespace longhaul::trainer {
namespace {

std::atomic<bool> stop_requested = false;
// Ranks agree on a stop in the all-reduce of a step. Before the first step there is nothing to
// save, and a rank that waits for a rank which has exited would wait until it is killed.
std::atomic<bool> stops_after_a_step = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// Only async-signal-safe actions: a lock-free store or _exit.
void InstallStopHandler() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (!stops_after_a_step) _exit(kExitTerminated);
    stop_requested = true;
  };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);  // a second one ends us at once
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Result<uint64_t> FromEnvironment(const char* name, uint64_t standard, uint64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return standard;
  const auto value = ParseUint64(text);
  if (!value.ok()) return value.status().WithContext(name);
  if (*value > most) return OutOfRange(std::string(name) + " is " + text);
  return *value;
}

// The variables of torchrun. With an agent, the agent serves the store; otherwise rank 0 does.
Result<GroupOptions> ReadGroupOptions(bool has_agent) {
  GroupOptions options;
  ASSIGN_OR_RETURN(const uint64_t world, FromEnvironment("WORLD_SIZE", 1, 1 << 20));
  ASSIGN_OR_RETURN(const uint64_t rank, FromEnvironment("RANK", 0, 1 << 20));
  ASSIGN_OR_RETURN(const uint64_t port, FromEnvironment("MASTER_PORT", 29500, 65535));
  if (rank >= world) return OutOfRange("RANK is not below WORLD_SIZE");
  options.world = static_cast<int>(world);
  options.rank = static_cast<int>(rank);
  options.port = static_cast<uint16_t>(port);
  if (const char* address = std::getenv("MASTER_ADDR")) options.address = address;
  options.serve_store = !has_agent && rank == 0;
  return options;
}

Result<std::unique_ptr<WorkerApi>> OpenWorkerApi(bool has_agent, const std::string& config_path,
                                                 bool prints) {
  if (has_agent) return OpenAgentWorkerApi();
  const char* named = std::getenv("LONGHAUL_TRAINER_CONFIG");
  const std::string path = config_path.empty() && named != nullptr ? named : config_path;
  ASSIGN_OR_RETURN(std::string config, io::ReadText(path, 1 << 20));
  return OpenStandaloneWorkerApi(std::move(config), prints);
}

Status Train(const std::string& config_path) {
  const bool has_agent = std::getenv("LONGHAUL_AGENT_SOCKET") != nullptr;
  ASSIGN_OR_RETURN(const GroupOptions options, ReadGroupOptions(has_agent));
  // The parts live until the process ends: see RunWorker.
  ASSIGN_OR_RETURN(auto opened, OpenWorkerApi(has_agent, config_path, options.rank == 0));
  WorkerApi& worker_api = *opened.release();
  ASSIGN_OR_RETURN(auto parsed, ParseTrainerConfig(worker_api.Config()));
  const auto& config = *new TrainerConfig(std::move(parsed));
  RETURN_IF_ERROR(worker_api.Enter(Phase::kRendezvous));
  ASSIGN_OR_RETURN(auto joined, Group::Join(options));
  ASSIGN_OR_RETURN(const Mesh mesh,
                   Mesh::Create(config.layout, static_cast<uint32_t>(options.world),
                                static_cast<uint32_t>(options.rank)));
  ASSIGN_OR_RETURN(auto groups, Communicators::Create(*joined.release(), mesh));
  ASSIGN_OR_RETURN(auto loop, Loop::Create(config, *groups.release(), worker_api, stop_requested));
  return loop.release()->Run([] { stops_after_a_step = true; });
}

// Writes the reason to the file that torchrun's and Longhaul's agents read.
void WriteErrorFile(const Status& status) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  nlohmann::ordered_json message;
  message["message"] = ToString(status);
  message["extraInfo"]["py_callstack"] = "";
  message["extraInfo"]["timestamp"] = std::to_string(ToNanoseconds(io::Now()) / 1'000'000'000);
  nlohmann::ordered_json json;
  json["message"] = message;
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  (void)io::WriteTextAtomically(io::PosixFileSystem(), path, text);
}

int ExitCodeOf(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "longhaul-trainer: %s\n", ToString(status).c_str());
  if (status.code() == Code::kCancelled) return kExitTerminated;
  if (status.code() == Code::kDataLoss) return kExitDataLoss;
  // A lost peer or agent is a failure of that process: naming it here would hide the cause.
  if (status.code() != Code::kUnavailable) WriteErrorFile(status);
  return 1;
}

}  // namespace

// _exit and no return: destructors of libtorch and of threads that still run would cost time and
// may hang, and everything that must survive is on disk or in the arena.
void RunWorker(const std::string& config_path) {
  InstallStopHandler();
  const int code = ExitCodeOf(Train(config_path));
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

}  // namespace longhaul::trainer
