// How an agent is started: the options of `longhaul agent`, and of the agents of `longhaul run`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "service/agent/check/check_command.h"

namespace longhaul::service {

struct AgentOptions {
  // "HOST:PORT" for agents; with controllers that stand by for each other all, with commas between.
  std::string controller;
  std::string token_file;       // of a controller on this machine without TLS; may be empty
  std::string join_token_file;  // for the first start with a controller that has TLS
  // The join token is one of an external identity (service/security/external_identity.h), which
  // needs ca_file. Its issuer writes the file and decides who may read it, so that the file's mode
  // and owner are not checked: a volume of Kubernetes has links, and files of root.
  bool external_join_token = false;
  std::string ca_file;                // verifies it then; empty: the join token does
  std::string node;                   // this node's name: 1 to 63 of a-z, 0-9 and '-'
  uint32_t slots = 1;                 // how many workers this node can run
  std::string state_directory;        // created when it is absent
  std::string address = "127.0.0.1";  // at which other nodes connect to this one's stores
  std::string trainer;  // the built-in trainer; empty: FindTrainer (trainer_program.h)
  uint64_t peer_bytes_per_second = 1'000'000'000;  // for copies to other nodes; 0: no limit
  pid_t parent = 0;                                // the agent ends when this process ends; 0: none
  // Run jobs as root where the agent is started as root. Not needed with `parent`: the user who
  // started that process is the one who submits the job.
  bool allow_root = false;
  // The account that workers run as and that owns their files, where the agent is started as root;
  // empty: the agent's own.
  std::string run_as;
  bool use_groups = true;    // limit jobs by control groups where possible
  bool copy_output = false;  // what commands write is written to standard output too
  // The program, with its arguments, that keeps the memory of snapshots when this agent is killed
  // (snapshot_keeper/snapshot_keeper.h). None: the memory ends with the agent.
  std::vector<std::string> snapshot_keeper;
  // The kernel's log, in which errors of devices are found (devices/kernel_log.h); empty: none.
  std::string kernel_log;
  // The program, with its arguments, that reads the native stacks of workers that hang
  // (native_stacks/stack_reader_main.h). None: they are not read.
  std::vector<std::string> stack_reader;
  // Tests the node's devices in a node check; without a command: $LONGHAUL_CHECK_COMMAND.
  CheckCommand check_command;
};

// Why the agent must not start as this user with these options, in one line; empty when it may.
// `user`: the effective one.
std::string WhyNotAsUser(const AgentOptions& options, uid_t user);

}  // namespace longhaul::service
