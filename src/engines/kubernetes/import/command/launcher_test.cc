#include "engines/kubernetes/import/command/launcher.h"

#include <string>
#include <vector>

#include "engines/kubernetes/import/command/shell_script.h"
#include "engines/kubernetes/import/command/worker_command.h"
#include "engines/kubernetes/import/import_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

struct Translated {
  WorkerCommand command;
  ImportReport report;
  std::string error;
};

Translated Translate(const Words& words) {
  Translated result;
  Translation translation({"a.yaml", 1, 0, "PyTorchJob", "a"}, result.report);
  ContainerCommand container;
  container.words = words;
  container.path = "command";
  container.variables.values = {{"DATA", "/data"}, {"N", "4"}, {"ODD", "a b'c"}};
  container.variables.at_run_time = {"RANK", "MASTER_ADDR", "SECRET"};
  container.renamed = {{"PET_NNODES", "NODE_NUM"}};
  result.command = TranslateCommand(container, translation);
  result.error = translation.ok() ? "" : translation.status().message();
  return result;
}

Words Argv(const Words& words) {
  const Translated result = Translate(words);
  EXPECT_EQ(result.error, "");
  return result.command.argv;
}

Words ArgvOfScript(const std::string& script) { return Argv({"bash", "-c", script}); }

TEST(Launcher, IsReplacedByTheScriptThatItStarts) {
  EXPECT_THAT(Argv({"torchrun", "--nnodes", "2", "--nproc_per_node=8", "a.py", "--nnodes=3"}),
              ElementsAre("python3", "-u", "a.py", "--nnodes=3"));
  EXPECT_THAT(Argv({"/opt/conda/bin/torchrun", "-m", "pkg.train", "x"}),
              ElementsAre("python3", "-u", "-m", "pkg.train", "x"));
  EXPECT_THAT(Argv({"torchrun", "--no-python", "./train.sh"}), ElementsAre("./train.sh"));
  EXPECT_THAT(Argv({"/opt/bin/python3.11", "-u", "-m", "torch.distributed.run", "a.py"}),
              ElementsAre("/opt/bin/python3.11", "-u", "a.py"));
  EXPECT_THAT(Argv({"python", "-m", "torch.distributed.launch", "--use_env", "a.py"}),
              ElementsAre("python", "-u", "a.py"));
  EXPECT_THAT(Argv({"python", "/usr/local/bin/torchrun", "a.py"}),
              ElementsAre("python", "-u", "a.py"));
  EXPECT_THAT(Argv({"dlrover-run", "--auto-config", "a.py"}), ElementsAre("python3", "-u", "a.py"));
}

TEST(Launcher, OtherCommandsStayAsTheyAre) {
  for (const Words& words : {Words{"python", "a.py", "torch"}, Words{"python", "-m", "pkg.run"},
                             Words{"./run.sh", ""}, Words{"bash", "train.sh", "-c"},
                             Words{"bash", "-c", "pip install x && python a.py | tee log"}}) {
    EXPECT_EQ(Argv(words), words);
    EXPECT_FALSE(Translate(words).command.launched);
  }
}

TEST(Launcher, OptionsAreReadInAllForms) {
  const LauncherOptions options =
      Translate({"torchrun", "--nnodes=2:8", "--nproc-per-node", "gpu", "--max_restarts=5",
                 "--rdzv_endpoint", "$(MASTER_ADDR):29500", "--node_rank=$(RANK)", "a.py"})
          .command.options;
  EXPECT_EQ(options.minimum_nodes, 2);
  EXPECT_EQ(options.maximum_nodes, 8);
  EXPECT_EQ(options.processes, "gpu");
  EXPECT_EQ(options.max_restarts, 5);
  EXPECT_EQ(Translate({"dlrover-run", "--node_unit=4", "a.py"}).command.options.node_unit, 4);
  EXPECT_EQ(Translate({"torchrun", "--max-r", "7", "a.py"}).command.options.max_restarts, 7);
  EXPECT_EQ(Translate({"torchrun", "--nproc_per_node=$(N)", "a.py"}).command.options.processes,
            "4");
}

TEST(Launcher, EachOptionThatIsLostIsReported) {
  const ImportReport report =
      Translate({"torchrun", "--rdzv-backend=c10d", "--rdzv_conf=timeout=9", "--tee", "3",
                 "--log_dir=/l", "--numa-binding=node", "--nproc-per-node=$(SECRET)", "-r", "1",
                 "--nnodes=1:$(SECRET)", "a.py"})
          .report;
  EXPECT_THAT(Noted(report, "command --rdzv-backend"), HasSubstr("not needed: Longhaul serves"));
  EXPECT_THAT(Noted(report, "command --rdzv-conf"), HasSubstr("dropped: --rdzv-conf is ignored"));
  EXPECT_EQ(Noted(report, "command --tee"), "dropped: a job file has no key for it");
  EXPECT_EQ(Noted(report, "command --redirects"), "dropped: a job file has no key for it");
  EXPECT_EQ(Noted(report, "command --log-dir"), "dropped: a job file has no key for it");
  EXPECT_THAT(Noted(report, "command --numa-binding"), HasSubstr("numactl"));
  EXPECT_THAT(Noted(report, "command --nproc-per-node"),
              HasSubstr("known only in the pod: taken as auto"));
  EXPECT_THAT(Noted(report, "command --nnodes"), HasSubstr("changed: "));
}

TEST(Launcher, MistakesAreErrorsThatNameTheOption) {
  const struct {
    Words words;
    const char* want;
  } kRows[] = {
      {{"torchrun", "--nnodes=0", "a.py"}, "--nnodes: \"0\" is not a number from 1 to 100,000"},
      {{"torchrun", "--nnodes=5:2", "a.py"}, "least number of nodes"},
      {{"torchrun", "--nproc-per-node=9999", "a.py"}, "is not a number from 1 to 1,024"},
      {{"torchrun", "--max-restarts=-1", "a.py"}, "--max-restarts"},
      {{"torchrun", "--nmodes=2", "a.py"}, "unknown flag --nmodes; did you mean --nnodes?"},
      {{"torchrun", "--nnodes"}, "--nnodes has no value"},
      {{"torchrun", "--nnodes=2"}, "torchrun has no script"},
      {{"dlrover-run", "--node_unit=0", "a.py"}, "--node-unit: is '0', expected a number from 1"},
      {{"timeout", "60", "torchrun", "a.py"}, "cannot be translated"},
      {{"bash", "-c", "timeout 60 torchrun a.py"}, "cannot be translated"},
      {{"bash", "-c", "x=$(torchrun $A a.py)"}, "cannot be translated"},
      {{"su", "user", "-c", "torchrun a.py"}, "cannot be translated"},
      {{"bash", "-c", "torchrun a.py; torchrun b.py"}, "cannot be translated"},
      {{"bash", "-c", "cat <<X\nX\ntorchrun a.py"}, "cannot be translated"},
      {{"bash", "-c", "torchrun \"$@\"", "x", "a.py"}, "cannot be translated"},
      {{"bash", "-c", "torchrun $ARGS a.py"},
       "the word $ARGS after torchrun is known only in the pod"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(Translate(row.words).error, HasSubstr(row.want)) << row.words.back();
  }
}

TEST(LauncherInAScript, IsReplacedWhereItIs) {
  EXPECT_THAT(ArgvOfScript("torchrun --nnodes=2 a.py --name 'x y'"),
              ElementsAre("python3", "-u", "a.py", "--name", "x y"));
  EXPECT_THAT(ArgvOfScript("  exec torchrun \\\n  --nnodes=2 \\\n  a.py\n"),
              ElementsAre("python3", "-u", "a.py"));
  EXPECT_THAT(ArgvOfScript("cd /w && torchrun a.py"),
              ElementsAre("bash", "-c", "cd /w && exec python3 -u a.py"));
  EXPECT_THAT(ArgvOfScript("# start\nA=1 torchrun a.py"),
              ElementsAre("bash", "-c", "# start\nA=1 exec python3 -u a.py"));
  EXPECT_THAT(ArgvOfScript("if x; then torchrun a.py 2>&1 | tee /l; fi"),
              ElementsAre("bash", "-c", "if x; then python3 -u a.py 2>&1 | tee /l; fi"));
  EXPECT_THAT(ArgvOfScript("torchrun $DIR/a.py"),
              ElementsAre("bash", "-c", "exec python3 -u $DIR/a.py"));
  EXPECT_THAT(ArgvOfScript("torchrun a.py --lr $LR '$x' \"$Y z\""),
              ElementsAre("bash", "-c", "exec python3 -u a.py --lr $LR '$x' \"$Y z\""));
  EXPECT_THAT(ArgvOfScript("echo \"torchrun on $HOST\"; torchrun a.py"),
              ElementsAre("bash", "-c", "echo \"torchrun on $HOST\"; exec python3 -u a.py"));
  EXPECT_THAT(Argv({"bash", "-o", "pipefail", "-c", "torchrun a.py | tee l"}),
              ElementsAre("bash", "-o", "pipefail", "-c", "python3 -u a.py | tee l"));
  EXPECT_THAT(Argv({"/bin/sh", "-e", "-c", "x\ntorchrun a.py"}),
              ElementsAre("/bin/sh", "-e", "-c", "x\nexec python3 -u a.py"));
}

TEST(LauncherInAScript, WhatIsBesideItIsReported) {
  const ImportReport report = Translate({"sh", "-c", "pip install x; torchrun a.py"}).report;
  EXPECT_THAT(Noted(report, "command"), HasSubstr("done by each process, no longer once in each"));
  EXPECT_EQ(Noted(Translate({"sh", "-c", "torchrun a.py"}).report, "command"), "");
}

TEST(LauncherInAScript, VariablesOfTheOtherOperatorAreSet) {
  EXPECT_THAT(ArgvOfScript("python a.py --nodes $PET_NNODES"),
              ElementsAre("bash", "-c",
                          "export PET_NNODES=\"$NODE_NUM\"; python a.py --nodes $PET_NNODES"));
  EXPECT_THAT(ArgvOfScript("python a.py $PET_NNODES_X"),
              ElementsAre("bash", "-c", "python a.py $PET_NNODES_X"));
}

TEST(CommandWords, ReferencesAreReplacedAsByKubernetes) {
  EXPECT_THAT(Argv({"python", "--d=$(DATA)/x", "$$(DATA)", "$(UNKNOWN)", "$(DATA"}),
              ElementsAre("python", "--d=/data/x", "$(DATA)", "$(UNKNOWN)", "$(DATA"));
  EXPECT_THAT(
      Argv({"python", "it's", "--key=$(SECRET)\"", "$(ODD)"}),
      ElementsAre("/bin/sh", "-c", "exec python 'it'\\''s' \"--key=${SECRET}\\\"\" 'a b'\\''c'"));
  EXPECT_THAT(ArgvOfScript("python $(DATA) $(SECRET) $(date)"),
              ElementsAre("bash", "-c", "python /data ${SECRET} $(date)"));
}

TEST(ShellScript, WordsAreThoseOfAShell) {
  const auto tokens = DivideScript("a=1 'b c'\"d $e\" f\\ g >h # i\nj;k&&(l) 2>m \"n\\\"o\" ~/p *");
  ASSERT_TRUE(tokens.has_value());
  std::vector<std::string> words;
  for (const ShellToken& token : *tokens) {
    if (!token.is_word) continue;
    words.push_back((token.begins_command ? "+" : "") + std::string(token.word.literal ? "" : "~") +
                    token.word.text);
  }
  EXPECT_THAT(words, ElementsAre("+a=1", "+~'b c'\"d $e\"", "f g", "h", "+j", "+k", "+l", "m",
                                 "+n\"o", "~~/p", "~*"));
  for (const char* cut : {"'a", "\"a", "`a", "${a", "$(a", "a \\", "cat <<EOF\nx\nEOF"}) {
    EXPECT_FALSE(DivideScript(cut).has_value()) << cut;
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
