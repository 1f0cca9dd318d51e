# Templates that the application has compiled before the fork: workers render them as they are, and one that does not
# compile fails the start, or the reload, by its file and line.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;

eval { require Template; 1 } or plan skip_all => 'Template Toolkit is not installed';

my $dir = File::Temp->newdir;

sub template {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/$name" or die $!;
    print {$out} $text;
    close $out or die $!;
    return "$dir/$name";
}

# Tells what it rendered, and how often this process has compiled something.
my $app = <<"PSGI";
use Howdah::Templates qw(precompile);
use Template;
use Template::Parser;
my (\$compiled, \$parse) = (0, \\&Template::Parser::parse);
{ no warnings 'redefine'; *Template::Parser::parse = sub { \$compiled++; goto &\$parse } }
my \$tt = precompile('Template', dir => '$dir', match => qr/\\.html\\z/, options => {INCLUDE_PATH => '$dir'});
my \$before = \$compiled;
sub {
    my \$env = shift;
    \$tt->process(substr(\$env->{PATH_INFO}, 1), {name => 'world'}, \\my \$out) or die \$tt->error;
    return [200, [], [\$out . ' ' . \$before . ' ' . (\$compiled - \$before)]];
};
PSGI

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\nHost: localhost\r\n\r\n")->{body};
}

# What JSON, `?auto` and `howdah status` say of the number of templates.
sub told {
    my $server = shift;
    my ($status, $table) = run_command(howdah_bin(), 'status', '--control', $server->dir . '/control');
    return (
        decode_json(ask($server, '/status?json'))->{templates},
        ask($server, '/status?auto') =~ /^CompiledTemplates: (\d+)$/m,
        $table =~ /^templates +(\d+) compiled before the fork$/m
    );
}

my $place = template('bad.html', "one\ntwo\n[% IF %]\n");
template('good.html', 'Hello [% name %]');

subtest 'a template that does not compile fails the start' => sub {
    my $server = Howdah::Test::Server->launch(app => $app, options => ['--workers', 2]);
    is $server->wait_for_exit // 'runs', 1, 'status 1';
    like $server->log, qr/\Q$place\E line 3: unexpected token \(IF\)|\Q$place\E line 3: /, 'file and line';
    unlike $server->log, qr/before the fork/;
};

unlink $place or die $!;
my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 2, '--status-path', '/status']);

subtest 'workers render without compiling' => sub {
    is ask($server, '/good.html'), 'Hello world 1 0', "answer $_" for 1 .. 10;
    my @said = $server->log =~ /^(.*before the fork.*)$/mg;
    is scalar @said, 1, 'logged once';
    like $said[0], qr/INFO  zygote.*: compiled 1 template of Template below \Q$dir\E before the fork$/;
    is_deeply [told($server)], [1, 1, 1], 'and told by the status';
};

subtest 'one that is broken at a reload: the old workers go on' => sub {
    my @old = sort $server->workers;
    template('bad.html', "one\n[% END %]\n");
    $server->signal('HUP');
    ok $server->wait_for_log(qr/\Q$place\E line 2: /), 'file and line';
    is ask($server, '/good.html'), 'Hello world 1 0', 'served';
    is_deeply [sort $server->workers], \@old, 'by those who did before';
    template('bad.html', 'mended');
    $server->signal('HUP');
    ok $server->wait_until(sub { ask($server, '/bad.html') =~ /^mended 2 0/ }), 'the next reload works';
    is_deeply [told($server)], [2, 2, 2], 'the status has the number of the new generation';
    is $server->stop, 0;
};

done_testing;
