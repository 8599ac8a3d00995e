// Commands as they are typed, and the rungs that they become.
#include "ablations/plan/command_rungs.h"

#include "ablations/plan/make_plan.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace command_rungs_test {

using namespace ablations;
using Texts = std::vector<std::string>;

Texts texts_of(const std::vector<Rung>& rungs) {
  Texts texts;
  for (const Rung& rung : rungs) texts.push_back(rung.command->text);
  return texts;
}

Texts names_in(const std::vector<Rung>& rungs) {
  Texts names;
  for (const Rung& rung : rungs) names.push_back(rung.name);
  return names;
}

// What sh prints for a text.
std::string printed_by(const std::string& text) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(text.c_str(), "r"), ::pclose);
  std::string printed;
  for (int c = 0; (c = std::fgetc(pipe.get())) != EOF;) printed += static_cast<char>(c);
  return printed;
}

std::string refusal_of(const Texts& typed, Mode mode = Mode::cumulative) {
  return ::refusal_of([&] { return rungs_of_commands(typed, mode); });
}

TEST(Commands, EachPlusAddsToTheCommandBeforeIt) {
  const auto rungs =
      rungs_of_commands({"python t.py", "+ --a", "bf16: + --dtype bf16", "python u.py", "+ --a"}, Mode::cumulative);
  EXPECT_EQ(texts_of(rungs), (Texts{"python t.py", "python t.py --a", "python t.py --a --dtype bf16", "python u.py",
                                    "python u.py --a"}));
  EXPECT_EQ(names_in(rungs), (Texts{"python-t.py", "a", "bf16", "python-u.py", "a-2"}));
  EXPECT_EQ(rungs[2].title, "bf16");
  EXPECT_EQ(rungs[2].command->typed, "+ --dtype bf16");
  EXPECT_EQ(rungs[2].applied, (Texts{"a", "bf16"}));
  EXPECT_EQ(rungs[2].optimization, "bf16");
  EXPECT_FALSE(rungs[2].against);
  EXPECT_EQ(rungs[3].against, 0U);
  EXPECT_EQ(rungs[4].applied, Texts{"a-2"});
}

TEST(Commands, AreTakenAsTheyStand) {
  const std::string typed = "python -c 'print(\"a: $HOME\")' \\\n  --x \"b  c\" # d: e";
  const auto rungs = rungs_of_commands({"  " + typed + "\n", "Name of it: " + typed}, Mode::cumulative);
  for (const Rung& rung : rungs) {
    EXPECT_EQ(rung.command->text, typed);
    EXPECT_EQ(rung.command->typed, typed);
  }
  EXPECT_EQ(rungs[0].title, typed);
  EXPECT_EQ(rungs[1].title, "Name of it");
}

TEST(Commands, ATitleHasNoMarksOfAShell) {
  for (const char* typed : {"A=1: x", "'a': x", "$a: x", "http://a: x", "-a: x", "a:x", "a\nb: x"}) {
    EXPECT_EQ(rungs_of_commands({typed}, Mode::cumulative)[0].title, typed);
  }
}

TEST(Commands, AssignmentsAreExportedBeforeTheCommand) {
  const std::string shows = "printf '%s|' \"$A\" \"$B\"; sh -c 'printf \"%s\" \"$A\"'; echo";
  const auto added_to = [](const std::string& command, const std::string& piece) {
    return rungs_of_commands({command + " {flags}", "+ " + piece}, Mode::cumulative).back().command->text;
  };
  EXPECT_EQ(added_to(shows, "--flag"), shows + " --flag");
  EXPECT_EQ(added_to(shows, "x A=1"), shows + " x A=1");
  EXPECT_EQ(added_to(shows, "1A=1"), shows + " 1A=1");
  EXPECT_EQ(printed_by(added_to(shows, "A=1")), "1||1\n");
  EXPECT_EQ(printed_by(added_to(shows, "A=1 B=2")), "1|2|1\n");
  EXPECT_EQ(printed_by(added_to(shows, "A=1 B=2 --flag B=3")), "1|2|1--flag B=3\n");
  EXPECT_EQ(printed_by(added_to(shows, "A='1  2' B=\"3 \\\" '4\" --flag")), "1  2|3 \" '4|1  2--flag\n");
  EXPECT_EQ(printed_by(added_to(shows, "A=1\\ 2 --flag")), "1 2||1 2--flag\n");
  EXPECT_EQ(printed_by(added_to(shows, "A=$(printf '1 2') B=3")).substr(0, 4), "1 2|");
  EXPECT_EQ(printed_by(added_to(added_to(shows, "A=1"), "A=2")), "2||2\n") << "the later one counts";
}

TEST(Commands, FlagsReachTheProgramOrAreRefused) {
  for (const char* command : {"t", "cd a && t", ". b; cd a\nt", "export A=1; t", "t 2>&1 >a", "t &>a",
                              "t 'a;b' \"|\" a\\;b c#d", "t $(a | b; c)", "t `a | b`", "t a\\\n b"}) {
    EXPECT_EQ(texts_of(rungs_of_commands({command, "+ --x"}, Mode::cumulative))[1], command + std::string(" --x"));
  }
  for (const char* command : {"t;", "t | tee a", "t # a", "t; echo", "t && echo", "t || u", "t &", "t\nu", "cd a;",
                              "bash -c 't'", "for i in 1; do t; done", "cd a && t | u", "#", "t 2>&1|u"}) {
    EXPECT_TRUE(has(refusal_of({command, "+ --x"}), "write {flags} in that command where its flags go")) << command;
    EXPECT_EQ(refusal_of({command, "+ A=1"}), "accepted") << "a variable stands before it";
  }
  EXPECT_EQ(texts_of(rungs_of_commands({"t {flags} | u {flags}", "+ --a", "+ B=1 --c", "v{flags}"}, Mode::cumulative)),
            (Texts{"t | u", "t --a | u --a", "export B=1; t --a --c | u --a --c", "v"}));
  EXPECT_EQ(texts_of(rungs_of_commands({"t {flags} | u", "+ --a", "+ --c"}, Mode::leave_one_out))[1], "t --a --c | u");
}

TEST(Commands, MayBeLong) {
  const std::string is_long(120000, 'a');
  for (const std::string& piece : {is_long, "A=" + is_long, "A='" + is_long + "' --flag", "title: + " + is_long}) {
    EXPECT_EQ(rungs_of_commands({is_long, "+ " + piece}, Mode::cumulative).size(), 2U);
  }
  EXPECT_LE(rungs_of_commands({is_long}, Mode::cumulative)[0].name.size(), 40U);
}

TEST(Commands, NamesAreUniqueAndFitForFiles) {
  const auto rungs =
      rungs_of_commands({"a b", "a  b", "a-b", "a b-2", "\xc3\xa4\xc3\xb6", "../../x", "..", "- -"}, Mode::cumulative);
  EXPECT_EQ(names_in(rungs), (Texts{"a-b", "a-b-2", "a-b-3", "a-b-2-2", "command", "x", "command-2", "command-3"}));
}

TEST(Commands, TheOtherModesCombineThePieces) {
  const Texts typed{"t", "+ --a", "B: + B=1", "+ --c"};
  EXPECT_EQ(texts_of(rungs_of_commands(typed, Mode::one_at_a_time)), (Texts{"t", "t --a", "export B=1; t", "t --c"}));
  const auto without = rungs_of_commands(typed, Mode::leave_one_out);
  EXPECT_EQ(texts_of(without),
            (Texts{"t", "export B=1; t --a --c", "export B=1; t --c", "t --a --c", "export B=1; t --a"}));
  EXPECT_EQ(without[3].title, "without B");
  EXPECT_EQ(without[3].optimization, "B");
  EXPECT_EQ(without[3].against, 1U);
  EXPECT_EQ(without[3].applied, (Texts{"a", "c"}));
  const auto subsets = rungs_of_commands(typed, Mode::factorial);
  ASSERT_EQ(subsets.size(), 8U);
  EXPECT_EQ(subsets[3].title, "--a + B");
  EXPECT_EQ(subsets[7].command->text, "export B=1; t --a --c");
  EXPECT_EQ(subsets[4].optimization, "c");
  EXPECT_EQ(subsets[3].optimization, "");
}

TEST(Commands, WhatCannotBeRunIsRefusedInOneLine) {
  for (const Texts& typed :
       {Texts{""}, Texts{" \n"}, Texts{"a", "+"}, Texts{"a", "x: +  "}, Texts{std::string("a\0b", 3)}}) {
    EXPECT_TRUE(has(refusal_of(typed), "there is nothing to run in it")) << typed.back();
  }
  EXPECT_TRUE(has(refusal_of({"+ --a"}), "the first command must not begin with \"+\""));
  EXPECT_TRUE(has(refusal_of({"a", "b\xff"}), "command \"b\\\\xff\": is not UTF-8"));
  for (const Mode mode : {Mode::one_at_a_time, Mode::leave_one_out, Mode::factorial}) {
    EXPECT_TRUE(has(refusal_of({"a"}, mode), "needs one command and then only pieces with \"+\""));
    EXPECT_TRUE(has(refusal_of({"a", "+ b", "c"}, mode), "needs one command"));
  }
  const Texts seven{"a", "+ b", "+ c", "+ d", "+ e", "+ f", "+ g", "+ h"};
  EXPECT_TRUE(has(refusal_of(seven, Mode::factorial), "at most 6 pieces"));
}

}  // namespace command_rungs_test
