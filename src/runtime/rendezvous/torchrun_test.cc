#include "runtime/rendezvous/torchrun.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace longhaul::runtime {
namespace {

using Environment = std::map<std::string, std::string>;

// Words between spaces.
std::vector<std::string> Words(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string_view word : Split(line, ' ')) {
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

Result<TorchrunArguments> Parse(std::string_view line, const Environment& environment = {}) {
  return ParseTorchrunArguments(Words(line), environment, "python3");
}

TEST(TorchrunArguments, BuildTheWorkersCommand) {
  const struct {
    const char* line;
    Environment environment;
    const char* want_argv;
  } kRows[] = {
      {"train.py", {}, "python3 -u train.py"},
      {"train.py --nnodes 9 -m", {}, "python3 -u train.py --nnodes 9 -m"},
      {"-m pkg.train --lr 1", {}, "python3 -u -m pkg.train --lr 1"},
      {"--module pkg.train", {}, "python3 -u -m pkg.train"},
      {"--no-python ./train.sh a", {}, "./train.sh a"},
      {"--no_python ./train.sh a", {}, "./train.sh a"},
      {"--run-path train.py", {}, "python3 -u train.py"},
      {"train.py", {{"PYTHON_EXEC", "/usr/bin/python3"}}, "/usr/bin/python3 -u train.py"},
      {"pkg.train", {{"PET_MODULE", "1"}}, "python3 -u -m pkg.train"},
      {"train.py", {{"PET_MODULE", "0"}}, "python3 -u train.py"},
      {"--nodes 2 --procs 2 -- python3 train.py --x", {}, "python3 train.py --x"},
      {"-- ./train -m", {}, "./train -m"},
      {"--nnodes 2 -- train.py --x", {}, "python3 -u train.py --x"},
      {"-m -- pkg.train", {}, "python3 -u -m pkg.train"},
      {"train.py -- more", {}, "python3 -u train.py -- more"},
  };
  for (const auto& row : kRows) {
    const auto got = Parse(row.line, row.environment);
    ASSERT_TRUE(got.ok()) << row.line << ": " << got.status();
    EXPECT_EQ(got->argv, Words(row.want_argv)) << row.line;
    EXPECT_TRUE(got->warnings.empty()) << row.line;
  }
}

TEST(TorchrunArguments, TakeEveryWayToWriteAFlag) {
  for (const char* line : {
           "--nnodes 2 --nproc-per-node 4 t.py",
           "--nnodes=2 --nproc_per_node=4 t.py",
           "--nnodes 2:2 --nproc_per_node 4 t.py",
           "--nodes 2 --procs 4 t.py",
           "--nnod 2 --nproc 4 t.py",
           "--nnodes 7 --nnodes 2 --nproc-per-node gpu --nproc-per-node 4 t.py",
           "--standalone --nnodes 2 --nproc-per-node 4 --monitor-interval 0.1 t.py",
           "--rdzv-backend c10d --start-method spawn --nnodes 2 --nproc-per-node 4 t.py",
       }) {
    const auto got = Parse(line);
    ASSERT_TRUE(got.ok()) << line << ": " << got.status();
    EXPECT_EQ(got->nodes, 2u) << line;
    EXPECT_EQ(got->processes, ProcessCount::kNumber) << line;
    EXPECT_EQ(got->processes_per_node, 4u) << line;
    EXPECT_TRUE(got->warnings.empty()) << line;
  }
}

TEST(TorchrunArguments, HaveTorchrunsDefaults) {
  const auto got = Parse("t.py");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->nodes, 1u);
  EXPECT_EQ(got->processes_per_node, 1u);
  EXPECT_EQ(got->max_restarts, std::nullopt);
  EXPECT_EQ(got->run_id, "none");
  EXPECT_EQ(got->role, "default");
  EXPECT_EQ(got->log_directory, "");
  EXPECT_EQ(got->redirects, StreamChoice{});
}

TEST(TorchrunArguments, ReadTheRest) {
  const auto got = Parse(
      "--max-restarts 3 --rdzv-id job7 --role trainer --log-dir /tmp/l -r 3 -t 0:1,1:2 "
      "--nproc-per-node auto t.py");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->max_restarts, 3u);
  EXPECT_EQ(got->run_id, "job7");
  EXPECT_EQ(got->role, "trainer");
  EXPECT_EQ(got->log_directory, "/tmp/l");
  EXPECT_EQ(got->redirects, (StreamChoice{3, {}}));
  EXPECT_EQ(got->tee, (StreamChoice{0, {{0, 1}, {1, 2}}}));
  EXPECT_EQ(got->processes, ProcessCount::kAuto);
  EXPECT_EQ(Parse("-r1 t.py")->redirects, (StreamChoice{1, {}}));
  EXPECT_EQ(Parse("-r=2 t.py")->redirects, (StreamChoice{2, {}}));
  EXPECT_EQ(Parse("--nproc-per-node cpu t.py")->processes, ProcessCount::kCpus);
  EXPECT_EQ(Parse("--nproc-per-node gpu t.py")->processes, ProcessCount::kGpus);
  EXPECT_TRUE(Parse("--help")->help);
  EXPECT_TRUE(Parse("-h")->help);
}

TEST(TorchrunArguments, ComeFromTheEnvironmentUnlessGiven) {
  const Environment environment = {
      {"PET_NNODES", "3"}, {"PET_NPROC_PER_NODE", "8"}, {"PET_MAX_RESTARTS", "5"}, {"PET_X", "y"}};
  const auto got = Parse("--nnodes 2 t.py", environment);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->nodes, 2u);
  EXPECT_EQ(got->processes_per_node, 8u);
  EXPECT_EQ(got->max_restarts, 5u);
}

TEST(TorchrunArguments, WarnOfWhatWillNotBeDone) {
  const struct {
    const char* line;
    const char* want;
  } kRows[] = {
      {"--rdzv-endpoint node-1:29500 t.py",
       "--rdzv-endpoint is ignored: Longhaul serves the rendezvous itself"},
      {"--master_addr h --master-addr i t.py",
       "--master-addr is ignored: Longhaul serves the rendezvous itself"},
      {"--network-check t.py", "--network-check is ignored: not supported yet"},
  };
  for (const auto& row : kRows) {
    const auto got = Parse(row.line);
    ASSERT_TRUE(got.ok()) << row.line << ": " << got.status();
    EXPECT_EQ(got->warnings, std::vector<std::string>{row.want}) << row.line;
  }
  EXPECT_EQ(Parse("--nnodes 1:4 t.py")->nodes, 4u);
  EXPECT_EQ(Parse("--nnodes 1:4 t.py")->minimum_nodes, 1u);
  EXPECT_EQ(Parse("--nnodes 2:2 t.py")->minimum_nodes, 2u);
  EXPECT_EQ(Parse("--nnodes 2 t.py", {{"PET_NNODES", "1:4"}})->minimum_nodes, 2u);
  EXPECT_TRUE(Parse("--nnodes 2 t.py", {{"PET_NNODES", "1:4"}})->warnings.empty());
}

TEST(TorchrunArguments, AcceptWithoutAWordWhatMeansTheSame) {
  for (const char* line : {
           "--rdzv-endpoint localhost:0 t.py",
           "--rdzv_endpoint=127.0.0.1:29400 t.py",
           "--master-addr localhost --master-port 29501 t.py",
           "--local-addr [::1]:0 t.py",
           "--node-rank 0 t.py",
           "--event-log-handler null --logs-specs default t.py",
           "--signals-to-handle SIGTERM,SIGINT t.py",
           "--shutdown-timeout 30 t.py",
           "--run-path --monitor-interval 1 --start-method spawn t.py",
       }) {
    const auto got = Parse(line);
    ASSERT_TRUE(got.ok()) << line << ": " << got.status();
    EXPECT_TRUE(got->warnings.empty()) << line << ": " << got->warnings[0];
  }
}

TEST(TorchrunArguments, SelectAndLabelTheOutputThatIsShown) {
  EXPECT_EQ(Parse("t.py")->shown_local_ranks, std::nullopt);
  EXPECT_EQ(Parse("--local-ranks-filter 0,2 t.py")->shown_local_ranks,
            (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(Parse("--local_ranks_filter=0 t.py")->shown_local_ranks, std::vector<uint32_t>{0});
  EXPECT_EQ(Parse("--log-line-prefix-template ${rank}: t.py")->line_prefix, "${rank}:");
  const Environment environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${hostname}:"}};
  EXPECT_EQ(Parse("t.py", environment)->line_prefix, "${hostname}:");
  EXPECT_EQ(Parse("--log-line-prefix-template a t.py", environment)->line_prefix, "a");
}

TEST(TorchrunArguments, RefuseWhatTheyCannotDoWithTheRemedy) {
  const struct {
    const char* line;
    const char* want;
  } kRows[] = {
      {"--node-rank 1 t.py",
       "--node-rank 1 is not supported: one command starts all nodes; run it once, with --nnodes "
       "(other machines join a controller as agents: --controller)"},
      {"--event-log-handler kafka t.py",
       "--event-log-handler kafka is not supported: Longhaul writes its events to events.jsonl in "
       "the run's directory; leave the flag out"},
      {"--virtual-local-rank t.py",
       "--virtual-local-rank is not supported: Longhaul gives each worker its real LOCAL_RANK; set "
       "CUDA_VISIBLE_DEVICES from it in the script, before CUDA is initialised"},
      {"--nproc-per-node xpu t.py",
       "--nproc-per-node xpu is not supported: Longhaul counts NVIDIA GPUs only; give the number "
       "of "
       "workers"},
      {"--signals-to-handle SIGTERM,SIGUSR1 t.py",
       "--signals-to-handle: \"SIGUSR1\" is not supported: Longhaul forwards no signals; send it "
       "to "
       "the workers, or name only SIGTERM, SIGINT, SIGHUP and SIGQUIT"},
      {"--local-ranks-filter 0,x t.py",
       "--local-ranks-filter: \"x\" is not a number from 0 to 1,023"},
  };
  for (const auto& row : kRows) {
    const auto got = Parse(row.line);
    ASSERT_FALSE(got.ok()) << row.line;
    EXPECT_EQ(got.status().message(), row.want) << row.line;
  }
  EXPECT_EQ(Parse("t.py", {{"PET_NODE_RANK", "0"}}).status(), Status());
  EXPECT_FALSE(Parse("t.py", {{"PET_NODE_RANK", "2"}}).ok());
}

TEST(TorchrunFlag, TakesTheNextWordUnlessItHasItsValue) {
  for (const char* word : {"--nnodes", "--rdzv_conf", "--log-dir", "-t", "-r"}) {
    EXPECT_TRUE(TorchrunFlagTakesNextWord(word)) << word;
  }
  for (const char* word : {"--nnodes=2", "--standalone", "-m", "-r3", "--", "-", "t.py", "--zz"}) {
    EXPECT_FALSE(TorchrunFlagTakesNextWord(word)) << word;
  }
}

TEST(TorchrunArguments, RefuseWhatIsWrongAndNameIt) {
  const struct {
    const char* line;
    Environment environment;
    const char* want;
  } kRows[] = {
      {"", {}, "no script given"},
      {"--nnodes 2", {}, "no script given"},
      {"--nnodes 2 --", {}, "no script given"},
      {"--nnodes", {}, "--nnodes needs a value"},
      {"--nmodes 2 t.py", {}, "unknown flag --nmodes; did you mean --nnodes?"},
      {"--zzzzzzzzzz t.py", {}, "unknown flag --zzzzzzzzzz"},
      {"-q t.py", {}, "unknown flag -q"},
      {"-mx t.py", {}, "unknown flag -mx"},
      {"--no t.py", {}, "--no could be --no-python or --node-rank or --node-unit or --nodes"},
      {"--standalone=1 t.py", {}, "--standalone takes no value"},
      {"--nnodes 0 t.py", {}, "--nnodes: \"0\" is not a number from 1 to 100,000"},
      {"--nnodes 3:2 t.py", {}, "--nnodes: the least number of nodes in 3:2 is above the most"},
      {"--nnodes 1:2:3 t.py", {}, "--nnodes: \"1:2:3\" is not NODES or MIN:MAX"},
      {"--procs many t.py",
       {},
       "--procs: \"many\" is not a number from 1 to 1,024, nor auto, cpu or gpu"},
      {"-r 4 t.py", {}, "--redirects: \"4\" is not a number from 0 to 3"},
      {"-t 0:1,1 t.py", {}, "--tee: \"1\" is not LOCAL_RANK:STREAMS"},
      {"-m --no-python t.py", {}, "--module and --no-python can't go together"},
      {"t.py",
       {{"PET_NNODES", "x"}},
       "PET_NNODES: --nnodes: \"x\" is not a number from 1 to 100,000"},
  };
  for (const auto& row : kRows) {
    const Status got = Parse(row.line, row.environment).status();
    EXPECT_EQ(got.code(), Code::kInvalidArgument) << row.line;
    EXPECT_EQ(got.message(), row.want) << row.line;
  }
}

// The second local rank of the second of two nodes with two and three workers.
TEST(WorkerEnvironment, HasEveryVariableOfTheContract) {
  WorkerPlace place;
  place.node_rank = 1;
  place.nodes = 2;
  place.first_rank = 2;
  place.local_rank = 1;
  place.local_ranks = 3;
  place.world = 5;
  place.master_address = "10.0.0.1";
  place.master_port = 29500;
  place.restart_count = 4;
  place.max_restarts = 100;
  place.run_id = "job7";
  place.error_file = "/run/e.json";
  const Environment want = {
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"HOME", "/root"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "3"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"NODE_NUM", "2"},
      {"NODE_RANK", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"RANK", "3"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "3"},
      {"ROLE_WORLD_SIZE", "5"},
      {"TORCHELASTIC_ERROR_FILE", "/run/e.json"},
      {"TORCHELASTIC_MAX_RESTARTS", "100"},
      {"TORCHELASTIC_RESTART_COUNT", "4"},
      {"TORCHELASTIC_RUN_ID", "job7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"WORLD_SIZE", "5"},
  };
  EXPECT_EQ(WorkerEnvironment(place, {{"HOME", "/root"}, {"RANK", "77"}}), want);
}

TEST(WorkerEnvironment, KeepsWhatTheUserHasSet) {
  WorkerPlace place;
  place.local_ranks = 2;
  const Environment got = WorkerEnvironment(place, {{"OMP_NUM_THREADS", "4"},
                                                    {"NCCL_ASYNC_ERROR_HANDLING", "0"},
                                                    {"TORCHELASTIC_ERROR_FILE", "/outer"}});
  EXPECT_EQ(got.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(got.at("NCCL_ASYNC_ERROR_HANDLING"), "0");
  EXPECT_FALSE(got.contains("TORCHELASTIC_ERROR_FILE"));
}

TEST(WorkerEnvironment, HasTheNameOfNcclsVariableThatThisPyTorchReads) {
  const struct {
    const char* version;
    bool old_name;
    bool new_name;
  } kRows[] = {{"1.13.0", true, false}, {"2.1.2", true, false}, {"2.2.0", false, true},
               {"2.15.0", false, true}, {"3.0.0", false, true}, {"", true, true}};
  for (const auto& row : kRows) {
    WorkerPlace place;
    place.torch_version = row.version;
    const Environment got = WorkerEnvironment(place, {});
    EXPECT_EQ(got.contains("NCCL_ASYNC_ERROR_HANDLING"), row.old_name) << row.version;
    EXPECT_EQ(got.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"), row.new_name) << row.version;
  }
}

TEST(WorkerEnvironment, LeavesThreadsAloneForASingleProcess) {
  EXPECT_FALSE(WorkerEnvironment(WorkerPlace{}, {}).contains("OMP_NUM_THREADS"));
}

TEST(WorkerArgv, ReplacesTheLocalRankInArguments) {
  const std::vector<std::string> want = {"${local_rank}", "t.py", "--dev=3", "33", "$local_rank"};
  EXPECT_EQ(WorkerArgv({"${local_rank}", "t.py", "--dev=${local_rank}",
                        "${local_rank}${local_rank}", "$local_rank"},
                       3),
            want);
}

TEST(ErrorFile, ReadsBothShapes) {
  const auto record = ParseErrorFile(
      R"({"message": {"message": "ValueError: no such file",
          "extraInfo": {"py_callstack": "Traceback", "timestamp": "1700000000"}}})");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*record, (WorkerError{"ValueError: no such file", "Traceback",
                                  InstantFromNanoseconds(1'700'000'000'000'000'000)}));
  const auto text = ParseErrorFile(R"({"message": "terminated", "timestamp": 1700000000.5})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            (WorkerError{"terminated", "", InstantFromNanoseconds(1'700'000'000'500'000'000)}));
}

TEST(ErrorFile, DoesWithoutATimeItCannotRead) {
  for (const char* timestamp : {"\"soon\"", "-1", "1e300", "null", "[]", "\"\""}) {
    const auto got = ParseErrorFile(R"({"message": {"message": "m", "extraInfo": {"timestamp": )" +
                                    std::string(timestamp) + "}}}");
    ASSERT_TRUE(got.ok()) << timestamp;
    EXPECT_EQ(got->at, std::nullopt) << timestamp;
  }
}

TEST(ErrorFile, CutsALongMessageBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 8'000; ++i) text += "\u00e9";
  const auto got = ParseErrorFile(R"({"message": ")" + text + "\"}");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->message, text.substr(0, 8 * 1024 - 1));  // the limit falls inside an e-acute
}

TEST(ErrorFile, RefusesWhatIsNone) {
  for (const char* json : {"", "{", "[]", "{}", "3", "{\"message\": 3}", "{\"message\": {}}",
                           "{\"message\": {\"message\": 3}}", "{\"message\": \"\xFF\"}"}) {
    EXPECT_EQ(ParseErrorFile(json).status().code(), Code::kInvalidArgument) << json;
  }
  EXPECT_EQ(ParseErrorFile(std::string(5 << 20, ' ')).status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace longhaul::runtime
