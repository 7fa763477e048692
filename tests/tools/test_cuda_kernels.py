# The static check of CUDA kernels: on the kernels where a toolkit is installed, and its limits on made-up figures everywhere.
import collections
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, 'tools', 'check_cuda')


def load_tool():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader('check_cuda', TOOL)
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader('check_cuda', loader))
    loader.exec_module(tool)
    return tool


class Compiled(unittest.TestCase):
    def test_kernels_are_within_the_limits_and_as_in_the_table(self):
        done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, timeout=570)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Limits(unittest.TestCase):
    def setUp(self):
        self.tool = load_tool()
        self.fact = self.tool.Fact(threads=128, shared=46592, argument=88, in_flight=46592, most_fold=12, major=0)

    def errors(self, fact=None, stack=0, spills=0, fold=12.0):
        code = self.tool.Code(100, collections.Counter(), 30.0, fold)
        return self.tool.row('quire_x', 'sm_90a', fact or self.fact, self.tool.Used(72, stack, spills), code)[1]

    def test_what_holds(self):
        self.assertEqual(self.errors(), [])
        self.assertEqual(self.errors(self.fact._replace(most_fold=18), fold=18.0), [])

    def test_what_does_not(self):
        for one, errors in (('stack', self.errors(stack=8)), ('spills', self.errors(spills=4)), ('FP32', self.errors(fold=12.5)),
                            ('in flight', self.errors(self.fact._replace(in_flight=8000)))):
            self.assertEqual(len(errors), 1, one)
            self.assertIn(one, errors[0])

    def test_blocks_that_a_multiprocessor_holds(self):
        hopper = self.tool.ARCHITECTURES['sm_90a']
        for shared, threads, registers, n in ((46592, 128, 72, 4), (0, 128, 32, 16), (0, 256, 40, 6), (0, 64, 16, 32), (0, 128, 255, 2),
                                              (200 << 10, 32, 32, 1)):
            fact = self.fact._replace(shared=shared, threads=threads)
            self.assertEqual(self.tool.residency(hopper, fact, registers), n, (shared, threads, registers))

    def test_what_stands_in_the_code(self):
        code = self.tool.code_of('''\
/*0000*/ LDG.E.U16 R0, [R2.64] ;
/*0010*/ @!P0 LDGSTS.E.BYPASS.128 [R1], [R2.64] ;
.L_x_1:
/*0020*/ FADD R1, R1, R2 ;
/*0030*/ @P1 BRA `(.L_x_1) ;
/*0040*/ IMMA.16832.S8.S8 R28, R16.ROW, R20.COL, R24 ;
/*0050*/ FADD R28, R28, -12582912 ;
/*0060*/ FFMA R43, R28, R24, R43 ;
/*0070*/ LDG.E R5, [R2.64] ;
/*0080*/ EXIT ;
.L_x_2:
/*0090*/ BRA `(.L_x_2) ;
/*00a0*/ NOP ;
'''.splitlines())
        self.assertEqual(code, (10, {2: 1, 16: 1, 4: 1}, 5.0, 2.0))

    def test_wgmma_counts_as_mma(self):
        code = self.tool.code_of(['/*0000*/ HGMMA.64x128x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;', '/*0010*/ EXIT ;'])
        self.assertEqual((code.per_mma, code.fold), (2.0, 0.0))

    def test_wgmma_that_waits_is_told(self):
        said = 'ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call in the function'
        self.assertIn('serialized', self.tool.serialized('ptxas info    : Used 90 registers\n' + said + '\n'))
        self.assertIsNone(self.tool.serialized("Compiling entry function 'quire_linear_wgmma_many' for 'sm_90a'"))

    def test_a_kernel_may_be_for_one_architecture(self):
        names = list(self.tool.ARCHITECTURES)
        self.assertTrue(all(self.tool.is_for(self.fact, name) for name in names))
        self.assertEqual([name for name in names if self.tool.is_for(self.fact._replace(major=9), name)], ['sm_90a'])


if __name__ == '__main__':
    unittest.main()
