# The checks find what they are for: each is given a small tree with one fault, and the same tree without it.
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))
from cxx_scan import ScanError, functions_of  # noqa: E402

LAYERS = '''
# a comment
base:
text: base
io: text(spec.h) base
backend/cpu: base
app: *
<boost/>: io
'''


class Tree(unittest.TestCase):
    """A folder with tools/layers.txt and the given files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write('tools/layers.txt', LAYERS)

    def write(self, path, text=''):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(textwrap.dedent(text))

    def run_tool(self, name, *args):
        done = subprocess.run([os.path.join(ROOT, 'tools', name), '--root', self.root, *args], capture_output=True,
                              text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode, done.stdout


class Names(Tree):
    def test_a_class_of_two_files_is_found_and_what_only_looks_like_one_is_not(self):
        self.write('src/text/a.h', 'namespace quire {\nstruct Pieces {\n};\n}  // namespace quire\n')
        self.write('src/text/b.cc', 'namespace quire {\nnamespace {\nstruct Pieces {\n};\n}  // namespace\nstruct More : Pieces {\n};\n}  // namespace quire\n')
        self.write('src/text/c.h', 'namespace quire {\nstruct Pieces;\nnamespace json {\nclass Pieces final {\n};\n}  // namespace json\n}  // namespace quire\n')
        self.assertEqual(self.run_tool('check_names')[0], 0)
        self.write('src/serve/d.h', 'namespace quire {\nclass Pieces {\n};\n}  // namespace quire\n')
        code, output = self.run_tool('check_names')
        self.assertEqual(code, 1)
        self.assertIn('quire::Pieces is a class in serve/d.h and in text/a.h', output)


class Archs(Tree):
    def test_an_architecture_is_named_in_its_own_file_and_in_text_alone(self):
        self.write('src/model/arch/zebra.cc', 'QR_REGISTER(ArchEntry,\n  "zebra",\n  ArchEntry{.hf = {.model_types = {"zebra_text"}}});\n')
        self.write('src/text/a.cc', 'f("zebra");\n')
        self.write('src/kv/b.cc', '#include "zebra"\n// "zebra"\nf("zebra.cpp is another", "zebras", "a zebra");\n')
        self.write('src/kv/b_test.cc', 'f("zebra");\n')
        self.assertEqual(self.run_tool('check_archs')[0], 0)
        for literal in ('zebra', 'zebra_text', 'zebra.block_count'):
            self.write('src/kv/c.cc', f'\nif (arch == "{literal}") return;\n')
            code, output = self.run_tool('check_archs')
            self.assertEqual(code, 1)
            self.assertIn('src/kv/c.cc:2: names the architecture "zebra', output)


class Layers(Tree):
    def setUp(self):
        super().setUp()
        for header in ('base/a.h', 'text/spec.h', 'text/other.h', 'io/io.h', 'backend/cpu/ops.h'):
            self.write('src/' + header)

    def expect(self, path, include, finding):
        """`finding` is what the check says about the include in that file; None when it is allowed."""
        self.write(path, f'// head\n#include {include}\n')
        code, output = self.run_tool('check_layers')
        if finding is None:
            self.assertEqual(code, 0, output)
        else:
            self.assertEqual(code, 1)
            self.assertIn(f'{path}:2: includes {include}: ', output)
            self.assertIn(finding, output)

    def test_arrow_of_the_table(self):
        self.expect('src/text/x.cc', '"base/a.h"', None)

    def test_own_room(self):
        self.expect('src/text/x.cc', '"text/other.h"', None)

    def test_arrow_upwards(self):
        self.expect('src/base/x.cc', '"text/spec.h"', 'base may not include text')

    def test_one_header_of_a_room(self):
        self.expect('src/io/x.cc', '"text/spec.h"', None)

    def test_another_header_of_that_room(self):
        self.expect('src/io/x.cc', '"text/other.h"', 'io may include of text only spec.h')

    def test_a_test_may_use_what_it_is_linked_with(self):
        self.expect('src/io/x_test.cc', '"text/other.h"', None)

    def test_a_test_may_not_use_more(self):
        self.expect('src/text/x_test.cc', '"io/io.h"', 'io is not below text')

    def test_path_beside_the_file(self):
        self.expect('src/text/x.cc', '"other.h"', 'write the path from src/')

    def test_no_such_file(self):
        self.expect('src/text/x.cc', '"base/none.h"', 'no such file')

    def test_only_wire_names_backends(self):
        self.expect('src/app/x.cc', '"backend/cpu/ops.h"', 'only app/wire.cc')

    def test_wire_names_backends(self):
        self.expect('src/app/wire.cc', '"backend/cpu/ops.h"', None)

    def test_third_party_in_its_room(self):
        self.expect('src/io/x.cc', '<boost/asio.hpp>', None)

    def test_third_party_elsewhere(self):
        self.expect('src/text/x.cc', '<boost/asio.hpp>', 'belongs to io')

    def test_unknown_room(self):
        self.write('src/attic/x.cc')
        code, output = self.run_tool('check_layers')
        self.assertEqual(code, 1)
        self.assertIn('src/attic/x.cc:1: its folder is not a room', output)

    def test_ring_in_the_table(self):
        self.write('tools/layers.txt', 'a: b\nb: c\nc: a\nd: a\n')
        code, output = self.run_tool('check_layers')
        self.assertEqual(code, 1)
        self.assertIn('a -> b -> c -> a', output)

    def test_unknown_name_in_the_table(self):
        self.write('tools/layers.txt', 'a: bb\n')
        self.assertIn('unknown room bb', self.run_tool('check_layers')[1])


def function(name, n_lines, params=''):
    """Text of a function whose braces span n_lines."""
    return f'int {name}({params}) {{\n' + 'f();\n' * (n_lines - 2) + '}\n'


class Sizes(Tree):
    def findings(self, *args):
        code, output = self.run_tool('check_sizes', *args)
        lines = output.strip().split('\n')[:-1]
        self.assertEqual(code, 1 if lines and '--soft' not in args else code)
        return lines

    def test_function_at_the_limit(self):
        self.write('src/a/x.cc', function('f', 100))
        self.assertEqual(self.findings(), [])

    def test_function_over_the_limit(self):
        self.write('src/a/x.cc', function('ok', 5) + function('f', 101))
        self.assertEqual(self.findings(), ['src/a/x.cc:6: f has 101 lines (budget 100)'])

    def test_file_over_the_limit(self):
        self.write('src/a/x.cc', '\n' * 501)
        self.assertEqual(self.findings(), ['src/a/x.cc: the file has 501 lines (budget 500)'])

    def test_kernels_may_be_longer(self):
        self.write('src/backend/cpu/kernels/x.h', '\n' * 800)
        self.assertEqual(self.findings(), [])

    def test_seam_header(self):
        self.write('src/ops/ops.h', '\n' * 121)
        self.assertEqual(self.findings(), ['src/ops/ops.h: the file has 121 lines (budget 120)'])

    def test_parameters(self):
        self.write('src/a/x.h', 'int f(int a, int b, int c, int d, int e);\n'
                                'int g(int a, int b, int c, int d, int e, int f);\n')
        self.assertEqual(self.findings(), ['src/a/x.h:2: g has 6 parameters (budget 5)'])

    def test_an_exception_lifts_the_limit(self):
        self.write('src/a/x.cc', function('f', 120))
        self.write('tools/size_exceptions.txt', 'function src/a/x.cc:f 120 a table that is one thing\n')
        self.assertEqual(self.findings(), [])

    def test_an_exception_is_a_limit_too(self):
        self.write('src/a/x.cc', function('f', 121))
        self.write('tools/size_exceptions.txt', 'function src/a/x.cc:f 120 a table that is one thing\n')
        self.assertEqual(self.findings(), ['src/a/x.cc:1: f has 121 lines (budget 120)'])

    def test_an_exception_without_need(self):
        self.write('src/a/x.cc', function('f', 20))
        self.write('tools/size_exceptions.txt', 'function src/a/x.cc:f 120 a table that is one thing\n')
        self.assertEqual(len(self.findings()), 1)

    def test_an_exception_without_reason(self):
        self.write('tools/size_exceptions.txt', 'function src/a/x.cc:f 120\n')
        self.assertEqual(len(self.findings()), 1)

    def test_soft_budgets_are_shown_on_request(self):
        self.write('src/a/x.cc', function('f', 41))
        self.assertEqual(self.findings(), [])
        self.assertEqual(self.findings('--soft'), ['src/a/x.cc:1: f has 41 lines (soft 40)'])


class Kernels(Tree):
    def expect(self, line, finding):
        self.write('src/backend/cuda/kernels/x.cuh', f'#include "backend/cuda/device/door.h"\n{line}\n')
        code, output = self.run_tool('check_kernels')
        self.assertEqual(code, 1 if finding else 0, output)
        if finding:
            self.assertIn(f'src/backend/cuda/kernels/x.cuh:2: {finding}: ', output)

    def test_what_belongs_into_the_door(self):
        self.expect('asm volatile("bar.sync 0;");', 'asm')
        self.expect('__syncthreads();', '__syncthreads')
        self.expect('entry<<<1, 32>>>(x);', '<<<')
        self.expect('y = sqrtf(x);', 'sqrtf(')
        self.expect('y = std::max(a, b);', 'std::')
        self.expect('atomicAdd(static_cast<float*>(p), x);', 'atomicAdd(static_cast<float')
        self.expect('static int n = 0;', 'static')
        self.expect('#include <cmath>', 'includes cmath')

    def test_what_a_kernel_may(self):
        for line in ('static constexpr int kThreads = 32;', 'y = dev::fma(a, b, dev::root(c));  // not std::fma, not asm',
                     '#include "backend/cuda/kernels/math.cuh"', 'dev::sync();', 'float soft_capped(float x);'):
            self.expect(line, None)


class Scan(unittest.TestCase):
    def scan(self, text):
        return [(f.name, f.n_lines, f.n_params) for f in functions_of(textwrap.dedent(text))]

    def test_braces_in_strings_comments_and_characters(self):
        self.assertEqual(self.scan('''\
            void f() {  // }
              s = "}" + R"x(} " )" })x" + '}' + '\\'' + u8"\\"}";
              /* } */ n = 1'000'000;
            }
            #define OPEN {  \\
              {
            void g() {}
            '''), [('f', 4, 0), ('g', 1, 0)])

    def test_scopes(self):
        self.assertEqual(self.scan('''\
            namespace a::b {
            extern "C" { int c(int); }
            template <class T, int N = (3 > 2)> class X final : public Y<int(int)> {
             public:
              explicit X(int a) : a_{a}, b_(a), c_{{1, 2}} { start(); }
              ~X() override {}
              int get() const noexcept { return a_; }
              auto last() -> std::vector<int> { return {}; }
              bool operator()(int a, int b) const { return a < b; }
              X& operator=(const X&) = delete;
              int a_{0};
              void (*run)(int, int, int, int, int, int) = nullptr;
            };
            enum class E : int { a, b };
            const int kTable[] = {1, 2,
                                  3};
            }
            '''), [('c', 0, 1), ('X', 1, 1), ('~X', 1, 0), ('get', 1, 0), ('last', 1, 0), ('operator()', 1, 2),
                   ('operator=', 0, 1)])

    def test_parameters(self):
        self.assertEqual(self.scan('''\
            void f(void);
            void g(std::map<int, std::pair<int, int>> a, std::function<void(int, int)> b, int c = h(1, 2));
            Result<std::pair<A, B>> S::h(int (&a)[3], [[maybe_unused]] int b) { return x; }
            TEST(Subject, Behaviour) {}
            using F = int(int, int, int, int, int, int);
            '''), [('f', 0, 0), ('g', 0, 3), ('S::h', 1, 2), ('TEST', 1, 0)])

    def test_a_lambda_among_arguments_of_a_macro(self):
        self.assertEqual(self.scan('''\
            QR_REGISTER(T, "x", T{[](int a) {
              return a;
            }});
            '''), [('(lambda)', 3, 0)])

    def test_nesting_counts_braced_control_statements(self):
        found = functions_of('void f() { if (a) { for (int x : {1, 2}) { while (b) { g([] { h(); }); } } } }')
        self.assertEqual([f.nesting for f in found], [3])

    def test_unbalanced_braces_are_an_error(self):
        for text in ('void f() {', 'void f() { ( }', '}'):
            with self.subTest(text), self.assertRaises(ScanError):
                functions_of(text)


if __name__ == '__main__':
    unittest.main()
