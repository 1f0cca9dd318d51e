# Hooks are kept by name, run in order, and one that dies does not stop the others, whatever it dies of.
use strict;
use warnings;

use Howdah;
use Test::More;
use overload ();

my @ran;
Howdah->after_fork(sub { push @ran, "first @_" });
Howdah->after_fork(sub { die "second\n" });
Howdah->after_fork(sub { push @ran, "third @_" });
Howdah->worker_exit(sub { push @ran, 'exit' });

ok(Howdah->has_hooks('after_fork'), 'there are some');
ok(!Howdah->has_hooks('before_fork'), '... and none of another name');

my @warnings;
{
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    Howdah->run_hooks(after_fork => 7);
}
is_deeply(\@ran, ['first 7', 'third 7'], 'in order, with the index');
is_deeply(\@warnings, ["the after_fork hook failed: second\n"], 'the one that died is named');

# What tells of it may fail, too: the text of an exception, which its class makes, and a handler of warnings.
my $odd = bless {}, 'Odd';
overload::OVERLOAD(Odd => '""' => sub { die "no text\n" });
Howdah->worker_exit(sub { push @ran, 'after it' });
Howdah->worker_exit(sub { die $odd });
Howdah->worker_exit(sub { push @ran, 'last' });
for my $handler (sub { push @warnings, @_ }, sub { die @_ }) {
    (@ran, @warnings) = ();
    local $SIG{__WARN__} = $handler;
    local *STDERR;
    open STDERR, '>', \my $printed or die $!;
    ok(eval { Howdah->run_hooks('worker_exit'); 1 }, 'it goes on');
    is_deeply(\@ran, ['exit', 'after it', 'last'], '... with the others');
    is(
        join('', @warnings, $printed // ''),
        "the worker_exit hook failed: an exception of class Odd, of which no text can be made\n",
        '... and it is told'
    );
}

ok(!eval { Howdah->before_fork('name'); 1 }, 'only code is taken');
like($@, qr/^Howdah->before_fork takes a code reference at \Q$0\E/, '... with the caller\'s place');

done_testing;
